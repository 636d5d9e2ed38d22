import { invalidField } from './problem.js';

/**
 * The revision a client has read, from its If-Match header (RFC 9110 §13.1.1): `"3"`, or bare. `*` and no header ask nothing.
 * Throws Problem for anything else, a list included: a draft has one revision.
 */
export function readIfMatch(header: string | undefined): number | undefined {
  const text = header?.trim();
  if (text === undefined || text === '*') return undefined;
  const match = /^(?:"(\d{1,9})"|(\d{1,9}))$/.exec(text);
  if (!match) throw invalidField('If-Match', 'must be the revision that was read, such as "3"');
  return Number(match[1] ?? match[2]);
}
