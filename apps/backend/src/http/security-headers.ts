import type { FastifyReply } from 'fastify';

/** Answers of the API are data: nothing in them is to be run, framed, sniffed or kept. */
const API_POLICY = "default-src 'none'; frame-ancestors 'none'";

/** Headers that keep a browser from making more of an answer than it is (OWASP REST security, "Security Headers"). */
export function setSecurityHeaders(reply: FastifyReply): void {
  reply.header('X-Content-Type-Options', 'nosniff');
  reply.header('X-Frame-Options', 'DENY');
  reply.header('Referrer-Policy', 'no-referrer');
  reply.header('Cross-Origin-Resource-Policy', 'same-origin');
  reply.header('Content-Security-Policy', API_POLICY);
  reply.header('Cache-Control', 'no-store');
}
