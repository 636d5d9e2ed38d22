import { ERRORS } from '@onward/contracts/errors';
import { type RpcError, rpcErrorSchema } from '@onward/contracts/frame';
import { RpcException } from '@nestjs/microservices';
import type { Logger } from 'pino';
import { databaseFault } from '../database/database-fault.js';

/** An error of the catalogue on its way out of the RPC. Nest hands on what an RpcException carries and hides everything else. */
export class RpcFailure extends RpcException {
  constructor(readonly carried: RpcError) {
    super(carried);
  }
}

/** The catalogue's word for whatever was thrown. Only an unforeseen fault is logged, and none of it leaves the process. */
export function rpcErrorOf(error: unknown, log: Logger): RpcError {
  if (error instanceof RpcFailure) return error.carried;
  const carried = rpcErrorSchema.safeParse(error);
  if (carried.success) return carried.data;
  const fault = databaseFault(error);
  // Nothing was written, or nobody knows: either way the call may be sent again.
  if (fault === 'away' || fault === 'busy') return { code: 'unavailable', detail: ERRORS.unavailable.title };
  log.error({ err: error }, 'a call failed');
  return { code: 'internal', detail: ERRORS.internal.title };
}

/** Runs the work of a handler and gives what it throws the catalogue's word before Nest can hide it. */
export async function inCatalogue<Result>(log: Logger, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw new RpcFailure(rpcErrorOf(error, log));
  }
}
