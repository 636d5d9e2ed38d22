import type { RequestHandler } from 'express';

/** Answers of the API are data: nothing in them is to be run, framed, sniffed or kept. */
const API_POLICY = "default-src 'none'; frame-ancestors 'none'";

/** Headers that keep a browser from making more of an answer than it is (OWASP REST security, "Security Headers"). */
export const securityHeaders: RequestHandler = (request, response, next) => {
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('X-Frame-Options', 'DENY');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
  response.setHeader('Content-Security-Policy', API_POLICY);
  response.setHeader('Cache-Control', 'no-store');
  next();
};
