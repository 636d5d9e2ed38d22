import type { z } from 'zod';
import { type DefectCode, isDefectCode } from './defect.js';

/**
 * Brings the issues of a Zod schema into one flat list with full paths. A key that is not known is named in the path; of a union the
 * alternative that came nearest (fewest issues) speaks. `code` is the one a schema of graph.ts gave to its own refusal.
 */
export type FlatIssue = { path: PropertyKey[]; message: string; code: DefectCode | null };

/** So many unknown keys of one object are named; a person mends no more at once. */
const MAX_KEYS = 20;

export function flattenIssues(issues: readonly z.core.$ZodIssue[], prefix: readonly PropertyKey[] = []): FlatIssue[] {
  return issues.flatMap((issue): FlatIssue[] => {
    const path = [...prefix, ...issue.path];
    if (issue.code === 'unrecognized_keys')
      return issue.keys.slice(0, MAX_KEYS).map((key) => ({ path: [...path, key], message: 'is not known here', code: null }));
    if (issue.code === 'invalid_union') {
      const [nearest] = issue.errors.filter((alternative) => alternative.length > 0).sort((a, b) => a.length - b.length);
      if (nearest !== undefined) return flattenIssues(nearest, path);
    }
    const code: unknown = issue.code === 'custom' ? issue.params?.code : undefined;
    return [{ path, message: issue.message, code: isDefectCode(code) ? code : null }];
  });
}
