/** P2: n8n is under a licence that lets nobody ship it, so whoever wants this row installs it; see docs/performance.md. */
import type { Group, Target } from '../target.js';

const against = (id: string, mode: string, must: number, aim: number): Target => ({
  id,
  what: `durable steps a second, against n8n in queue mode, ${mode}`,
  unit: 'steps/s',
  judged: 'ratio',
  better: 'higher',
  must,
  aim,
  against: `n8n, ${mode}`,
});

export const n8n: Group = {
  targets: [against('P2 defaults', 'defaults', 30, 80), against('P2 progress', 'progress saved', 45, 120)],
  measure: () => Promise.resolve([]),
};
