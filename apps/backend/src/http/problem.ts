import type { ErrorCode } from '@onward/contracts/errors';

/** One field that is wrong. `path` is dotted (`trigger.event`, `tags.0`), a query or path parameter by its name; empty for the whole body. */
export type FieldError = { path: string; message: string };

/**
 * A refusal that HTTP answers as RFC 9457 problem details. Thrown by controllers and by verbs that refuse a request;
 * `detail` is read by people and must hold no secret.
 */
export class Problem extends Error {
  readonly errors: FieldError[] | undefined;
  /** Answered as Retry-After (RFC 9110 §10.2.3). */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    readonly code: ErrorCode,
    readonly detail: string,
    extra: { errors?: FieldError[]; retryAfterSeconds?: number } = {},
  ) {
    super(`${code}: ${detail}`);
    this.name = 'Problem';
    this.errors = extra.errors;
    this.retryAfterSeconds = extra.retryAfterSeconds;
  }
}

/** A refusal of one field. */
export function invalidField(path: string, message: string): Problem {
  return new Problem('invalid', `${path}: ${message}`, { errors: [{ path, message }] });
}
