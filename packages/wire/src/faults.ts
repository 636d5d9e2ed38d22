/**
 * What a call can throw. All of them mean the same to the caller: what happened at the backend is unknown.
 * A refusal is a reply and is never thrown.
 */
import { ERRORS, type ErrorCode } from '@onward/contracts/errors';

/** The errors that pass by themselves: what was answered with one is sent again. */
export const PASSING: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['draining', 'unavailable']);

/** The backend, or this side's check of size or shape, answered with an error of the catalogue that sending again cannot cure. */
export class RpcFault extends Error {
  override readonly name = 'RpcFault';
  constructor(
    readonly pattern: string,
    readonly code: ErrorCode,
    readonly detail: string,
  ) {
    super(`${pattern}: ${code}: ${detail || ERRORS[code].title}`);
  }
}

/** The call's deadline passed without an answer. `lastReason` says why the last sending came to nothing, when it ended before the deadline. */
export class RpcTimeout extends Error {
  override readonly name = 'RpcTimeout';
  constructor(
    readonly pattern: string,
    readonly timeoutMs: number,
    readonly lastReason: string | null,
  ) {
    super(`${pattern}: no answer within ${timeoutMs} ms${lastReason === null ? '' : ` (${lastReason})`}`);
  }
}

/** The client was closed while the call was open, or before it was made. */
export class ClientClosed extends Error {
  override readonly name = 'ClientClosed';
  constructor(readonly pattern: string) {
    super(`${pattern}: the client is closed`);
  }
}
