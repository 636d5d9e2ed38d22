/** Holds what was measured against what it must come to. */
import { median } from './median.js';
import type { Row, Sample, Spread, Target, Verdict } from './target.js';

export function judge(target: Target, sample: Sample | undefined): Row {
  const value = spreadOf(sample?.values ?? []);
  const against = spreadOf(sample?.against ?? []);
  const ratio = spreadOf((sample?.against ?? []).map((other, nth) => (sample?.values[nth] ?? Number.NaN) / other));
  const judged = target.judged === 'ratio' ? ratio : value;
  return { target, verdict: verdictOf(target, judged), value, against, ratio, note: sample?.note ?? '' };
}

/** The row of a target whose measuring threw. */
export function failed(target: Target, error: unknown): Row {
  const note = error instanceof Error ? `${error.message}${error.cause instanceof Error ? ` (${error.cause.message})` : ''}` : String(error);
  return { target, verdict: 'fail', value: null, against: null, ratio: null, note };
}

function verdictOf({ better, must, aim }: Target, judged: Spread | null): Verdict {
  if (judged === null) return 'not run';
  const reaches = (wanted: number): boolean => (better === 'higher' ? judged.median >= wanted : judged.median <= wanted);
  if (must === null) return 'reported';
  if (!reaches(must)) return 'fail';
  return aim !== null && reaches(aim) ? 'aim met' : 'pass';
}

function spreadOf(values: readonly number[]): Spread | null {
  return values.length === 0 ? null : { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}
