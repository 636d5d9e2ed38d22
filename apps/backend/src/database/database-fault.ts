import { isUnavailable } from './is-unavailable.js';

/**
 * What an error of the database side means for the one who asked (codes: PostgreSQL manual, appendix A).
 *
 * - `away`: the database cannot be reached, or the pool gave up. Whether a commit in flight happened is unknown.
 * - `busy`: it gave up on this statement (deadlock, serialization, lock or statement time-out); nothing was written. Worth a repeat.
 * - `taken`: a unique rule, `held`: a reference forbids it. `unreadable`: a value Postgres cannot keep (NUL, broken UTF-8, an instant or number out of range).
 * - null: anything else, errors that are not the database's included.
 */
export type DatabaseFault = 'away' | 'busy' | 'taken' | 'held' | 'unreadable';

const FAULT_OF_STATE: Record<string, DatabaseFault> = {
  '40001': 'busy',
  '40P01': 'busy',
  '55P03': 'busy',
  '57014': 'busy',
  '53200': 'busy',
  '23505': 'taken',
  '23503': 'held',
  '22003': 'unreadable',
  '22007': 'unreadable',
  '22008': 'unreadable',
  '22021': 'unreadable',
  '22P05': 'unreadable',
};

export function databaseFault(error: unknown): DatabaseFault | null {
  if (isUnavailable(error)) return 'away';
  if (!(error instanceof Error)) return null;
  const { code, driverError } = error as Error & { code?: unknown; driverError?: unknown };
  if (typeof code === 'string' && FAULT_OF_STATE[code]) return FAULT_OF_STATE[code];
  return driverError instanceof Error && driverError !== error ? databaseFault(driverError) : null;
}

/** Did Postgres end this transaction to let another one go on (deadlock, serialization)? Then the same work may be begun anew at once. */
export function wasGivenUp(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, driverError } = error as Error & { code?: unknown; driverError?: unknown };
  return code === '40P01' || code === '40001' || (driverError instanceof Error && driverError !== error && wasGivenUp(driverError));
}
