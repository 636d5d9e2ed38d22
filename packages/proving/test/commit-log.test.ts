import { expect, test } from 'vitest';
import { checkCommits, type Commit } from '../src/commit-log.js';

/** The checker itself must be able to say no. */
const commit = (change: Partial<Commit>): Commit => ({
  runId: 'r',
  state: 'running',
  claimId: 'c',
  epoch: 1,
  seq: 1,
  lastEpoch: 0,
  lastSeq: 0,
  isEnded: false,
  at: new Date(0),
  ...change,
});

test('a run that is claimed, taken over, moved on and ended is without breach, and so is its replay', () => {
  const life = [
    commit({ state: 'pending', epoch: 0 }),
    commit({ seq: 2, lastEpoch: 1, lastSeq: 1 }),
    commit({ epoch: 2, seq: 2, lastEpoch: 2, lastSeq: 2 }),
    commit({ state: 'failed', epoch: 2, seq: 4, lastEpoch: 2, lastSeq: 3, isEnded: true }),
    commit({ state: 'pending', epoch: 2, seq: 5, lastEpoch: 2, lastSeq: 3 }),
    commit({ state: 'succeeded', epoch: 3, seq: 6, lastEpoch: 3, lastSeq: 5, isEnded: true }),
  ];
  expect(checkCommits('r', life)).toEqual([]);
});

test('a commit that falls back, one of an older epoch, and a step that is closed twice or never are told', () => {
  const begun = [commit({ state: 'pending', epoch: 0 }), commit({ epoch: 2, seq: 3, lastEpoch: 2, lastSeq: 2 })];
  expect(checkCommits('r', [...begun, commit({ epoch: 1, seq: 3, lastEpoch: 2, lastSeq: 2 })])).toEqual([
    'run r: fell from epoch 2, step 3 to epoch 1, step 3',
  ]);
  expect(checkCommits('r', [...begun, commit({ epoch: 2, seq: 4, lastEpoch: 1, lastSeq: 3 })])).toEqual(['run r: epoch 1 committed when epoch 2 had the run']);
  const back = [...begun, commit({ epoch: 2, seq: 2, lastEpoch: 2, lastSeq: 2 }), commit({ epoch: 2, seq: 3, lastEpoch: 2, lastSeq: 3 })];
  expect(checkCommits('r', back)).toEqual(['run r: fell from epoch 2, step 3 to epoch 2, step 2', 'run r: step 2 was closed by 2 commits']);
  expect(checkCommits('r', [])).toEqual(['run r: nobody saw it being made']);
});
