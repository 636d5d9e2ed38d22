/**
 * What an error of the database side means for the one who asked. The only place that reads Postgres error codes
 * (PostgreSQL manual, appendix A) or the texts of the driver and its pool.
 *
 * - `away`: the database cannot be reached, is starting or stopping, or the pool gave up. Whether a commit in flight happened is unknown.
 * - `busy`: it gave up on this statement (deadlock, serialization, lock or statement time-out); nothing was written. Worth a repeat.
 * - `taken`: a unique rule, `held`: a reference forbids it. `unreadable`: a text Postgres cannot keep (NUL, broken UTF-8).
 * - null: anything else, errors that are not the database's included.
 */
export type DatabaseFault = 'away' | 'busy' | 'taken' | 'held' | 'unreadable';

const SOCKET_CODES = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN', 'ENOENT'];

const FAULT_OF_STATE: Record<string, DatabaseFault> = {
  '57P01': 'away',
  '57P02': 'away',
  '57P03': 'away',
  '57P05': 'away',
  '53300': 'away',
  '25P03': 'away',
  '40001': 'busy',
  '40P01': 'busy',
  '55P03': 'busy',
  '57014': 'busy',
  '53200': 'busy',
  '23505': 'taken',
  '23503': 'held',
  '22021': 'unreadable',
  '22P05': 'unreadable',
};

/** What pg and its pool say without a code. */
const AWAY_TEXTS = [
  'timeout exceeded when trying to connect',
  'Connection terminated',
  'Client has encountered a connection error',
  'Client was closed and is not queryable',
  'Cannot use a pool after calling end on the pool',
  'Driver not Connected',
  'DataSource is not set for this entity',
];

export function databaseFault(error: unknown): DatabaseFault | null {
  if (!(error instanceof Error)) return null;
  const { code, driverError, errors } = error as Error & { code?: unknown; driverError?: unknown; errors?: unknown };
  if (driverError instanceof Error && driverError !== error) return databaseFault(driverError);
  // Node dials every address of a name and gives all failures together.
  if (error.name === 'AggregateError' && Array.isArray(errors) && errors.length > 0) return databaseFault(errors[0]);
  if (typeof code === 'string') {
    const fault = FAULT_OF_STATE[code];
    if (fault) return fault;
    if (isSqlState(error) && code.startsWith('08')) return 'away';
    if (SOCKET_CODES.includes(code) && isSocketError(error)) return 'away';
  }
  return AWAY_TEXTS.some((text) => error.message.includes(text)) ? 'away' : null;
}

/** The name of the constraint that was broken, when the error names one. */
export function brokenConstraint(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { constraint, driverError } = error as Error & { constraint?: unknown; driverError?: unknown };
  if (typeof constraint === 'string') return constraint;
  return driverError instanceof Error && driverError !== error ? brokenConstraint(driverError) : null;
}

function isSqlState(error: Error): boolean {
  return 'severity' in error;
}

function isSocketError(error: Error): boolean {
  return 'syscall' in error;
}
