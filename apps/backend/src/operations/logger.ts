import { maskCredentials } from '@onward/contracts/credential-names';
import { destination, type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import type { Settings } from '../settings.js';

export type { Logger };

/** Injection token of the process's one logger. */
export const LOGGER = Symbol('logger');

/**
 * JSON lines on standard output, one an entry, at the level the settings name. Written at once: a crash loses no line. Fields that name a
 * credential are masked at any depth.
 * Log an error as `err`: of it only what explains it is kept, never the statement's parameters that a failed query carries.
 */
export function createLogger(settings: Pick<Settings, 'logLevel'>, to: DestinationStream = destination({ dest: 1, sync: true })): Logger {
  return pino(
    {
      level: settings.logLevel,
      base: { process: 'backend' },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { log: maskCredentials },
      serializers: { err: describeError },
    },
    to,
  );
}

type DescribedError = { name: string; message: string; code?: string; stack?: string; cause?: DescribedError };

/** An error as the log keeps it. Anything may be thrown, so anything is taken. */
export function describeError(error: unknown): DescribedError {
  if (!(error instanceof Error)) return { name: typeof error, message: String(error).slice(0, 1_000) };
  const { code, driverError } = error as Error & { code?: unknown; driverError?: unknown };
  const cause = error.cause ?? (driverError === error ? undefined : driverError);
  return {
    name: error.name,
    message: error.message.slice(0, 2_000),
    ...(typeof code === 'string' ? { code } : {}),
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(cause instanceof Error ? { cause: describeError(cause) } : {}),
  };
}
