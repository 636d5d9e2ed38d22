import type { FastifyServerOptions } from 'fastify';
import { Problem } from './problem.js';
import { detailsOf } from './problem-filter.js';

type ClientErrorHandler = NonNullable<FastifyServerOptions['clientErrorHandler']>;

/** What Node calls it → how it is answered: status and reason (RFC 9110 §15.5, RFC 6585 §5), and what is said of it. */
const REFUSALS: Readonly<Record<string, { status: string; detail: string }>> = {
  HPE_HEADER_OVERFLOW: { status: '431 Request Header Fields Too Large', detail: 'The head of the request is too long' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', detail: 'The request did not come to its end in time' },
};
const UNREADABLE = { status: '400 Bad Request', detail: 'This is not a request that can be read (RFC 9112)' };

/** Answers what is no HTTP request, or only the beginning of one, and ends its connection. No route, hook or filter sees it. */
export const refuseUnreadable: ClientErrorHandler = ({ code }, socket) => {
  if (code === 'ECONNRESET' || socket.destroyed) return;
  const { status, detail } = REFUSALS[code] ?? UNREADABLE;
  const body = JSON.stringify({ ...detailsOf(new Problem('malformed', detail)), status: Number.parseInt(status, 10) });
  const head = [
    `HTTP/1.1 ${status}`,
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  if (socket.writable) socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  socket.destroySoon();
};
