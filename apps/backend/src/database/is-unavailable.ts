import { QueryRunnerAlreadyReleasedError } from 'typeorm';

const CODES = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', '57P01', '57P02', '57P03', '53300', '25006']);
const TEXTS = [
  /timeout exceeded when trying to connect/i,
  /connection terminated/i,
  /client has encountered a connection error/i,
  /not queryable/i,
  /server closed the connection/i,
];

/** Does this error say that Postgres cannot be reached now (or is read-only, as during a fail-over)? Then the caller may try again. */
export function isUnavailable(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; depth += 1) {
    // A connection that breaks between two statements of a transaction takes its runner away: nothing else does so before the transaction ends.
    if (at instanceof QueryRunnerAlreadyReleasedError) return true;
    const code = (at as { code?: unknown }).code;
    if (typeof code === 'string' && (CODES.has(code) || code.startsWith('08'))) return true;
    if (TEXTS.some((text) => text.test((at as Error).message))) return true;
    if (at instanceof AggregateError && at.errors.some((inner) => isUnavailable(inner))) return true;
    at = (at as { driverError?: unknown }).driverError ?? at.cause;
  }
  return false;
}
