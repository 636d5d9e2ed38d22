/** What is written of locked runs, with the commit or before it, is written wholly or not at all. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { selectList } from '../../src/database/columns.js';
import { rows, transact, type Tx } from '../../src/database/sql.js';
import type { Attempt } from '../../src/runs/attempt.entity.js';
import { ATTEMPT_COLUMNS } from '../../src/runs/run-columns.js';
import { attemptsOf, changeRun, type Checkpoint, lockRuns, writeAttempt } from '../../src/runtime/checkpoint.js';
import { KnownRuns } from '../../src/runtime/known-runs.js';
import { blank } from '../../src/runtime/pass-nodes.js';
import { commitCheckpoints, saveCheckpoints } from '../../src/runtime/save-checkpoints.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { BY_HAND, insertRuns } from '../sweeper/sweeper-bench.js';
import { line, publish, tag } from './hand-worker.js';

let onward: BackendForTest;
let workflowId: string;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
  workflowId = await publish(onward, line(tag('a')));
});
afterAll(() => onward?.close());

const WAYS = [
  ['before the commit', saveCheckpoints],
  ['with the commit', commitCheckpoints],
] as const;

/** Locks two runs, lets them be changed, and writes both. */
async function write(save: (tx: Tx, checkpoints: readonly Checkpoint[]) => Promise<void>, changeThem: (one: Checkpoint, other: Checkpoint) => void) {
  const made = await insertRuns(onward, workflowId, 2);
  const ids = made.map(({ id }) => id);
  const written = transact(onward.source, async (tx) => {
    const [one, other] = await lockRuns(tx, ids, new KnownRuns());
    if (!one || !other) throw new Error('Both are there to be locked');
    changeThem(one, other);
    await save(tx, [one, other]);
    return [one, other].map(({ stamp }) => stamp);
  });
  const stored = () =>
    rows<{ seq: number; attempts: number; stamp: string }>(
      onward.source,
      'SELECT seq, (SELECT count(*)::int FROM attempts WHERE run_id = runs.id) AS attempts, xmin AS stamp FROM runs WHERE id = ANY ($1) ORDER BY id',
      [ids],
    );
  return { written, stored };
}

/** As a frame of its own claim leaves it: nothing but the cursor is written. */
const step = (checkpoint: Checkpoint): void => {
  writeAttempt(checkpoint, blank(checkpoint, 1, 'start', 'trigger'));
  const { claimId, epoch, seq } = checkpoint.locked;
  changeRun(checkpoint, { seq: 2, lastClaimId: claimId, lastEpoch: epoch, lastSeq: seq });
};
/** The same, and more than the cursor. */
const claim = (checkpoint: Checkpoint): void => {
  step(checkpoint);
  changeRun(checkpoint, { unknownNodes: 1 });
};
const STEPS = [
  ['a cursor that moves', step],
  ['more than the cursor', claim],
] as const;

const BOTH = WAYS.flatMap(([when, save]) => STEPS.map(([what, change]) => ({ when, save, what, change })));

test.each(BOTH)('all of it, $when, and each run is known by the row that was written: $what', async ({ save, change }) => {
  const { written, stored } = await write(save, (one, other) => [one, other].forEach(change));
  const stamps = await written;
  const found = await stored();
  expect(found).toMatchObject([
    { seq: 2, attempts: 1 },
    { seq: 2, attempts: 1 },
  ]);
  expect(stamps.toSorted()).toEqual(found.map(({ stamp }) => stamp).toSorted());
});

const AT = new Date('2026-12-01T10:00:00.123Z');
/** A value for each column an attempt may have something in beside its beginning, unlike what it begins with. */
const VALUES = {
  node: 'other',
  nodeType: 'wait',
  status: 'uncertain',
  epoch: 9,
  port: 'next',
  verb: 'advance',
  input: { a: '"\\é' },
  output: { b: ['{}', null] },
  failure: { code: 'network', message: 'broke' },
  warnings: ['one', 'two'],
  mark: 'uncertain',
  resolved: { happened: true, by: 'me', at: AT.toISOString() },
  endedAt: AT,
} satisfies Partial<Attempt>;
const COLUMNS = Object.keys(VALUES) as (keyof typeof VALUES)[];

const readAttempt = async (runId: string): Promise<Attempt | undefined> =>
  (await rows<Attempt>(onward.source, `SELECT ${selectList(ATTEMPT_COLUMNS)} FROM attempts WHERE run_id = $1`, [runId]))[0];

test.each([...COLUMNS, 'replayOf' as const])('an attempt is written with its %s, in company of one that has none', async (name) => {
  const value = name === 'replayOf' ? 4 : VALUES[name];
  let expected: Attempt[] = [];
  const { written } = await write(saveCheckpoints, (one, other) => {
    expected = [blank(one, 1, 'start', 'trigger'), { ...blank(other, 1, 'start', 'trigger'), [name]: value }];
    for (const [nth, checkpoint] of [one, other].entries()) writeAttempt(checkpoint, expected[nth] as Attempt);
  });
  await written;
  expect(await Promise.all(expected.map(({ runId }) => readAttempt(runId)))).toEqual(expected);
});

test.each(COLUMNS)('an attempt that is there is changed in its %s, to something and to what it was', async (name) => {
  const [run] = await insertRuns(onward, workflowId, 1);
  const save = (change: (checkpoint: Checkpoint) => Promise<void> | void): Promise<void> =>
    transact(onward.source, async (tx) => {
      const [checkpoint] = await lockRuns(tx, [run?.id ?? ''], new KnownRuns());
      if (!checkpoint) throw new Error('It is there to be locked');
      await change(checkpoint);
      await commitCheckpoints(tx, [checkpoint]);
    });
  const changeIt = (value: unknown) =>
    save(async (checkpoint) => {
      const [there] = await attemptsOf(checkpoint, 1);
      writeAttempt(checkpoint, { ...(there as Attempt), [name]: value });
    });
  let first: Attempt | undefined;
  await save((checkpoint) => {
    first = blank(checkpoint, 1, 'start', 'trigger');
    writeAttempt(checkpoint, first);
  });
  await changeIt(VALUES[name]);
  expect(await readAttempt(run?.id ?? '')).toEqual({ ...first, [name]: VALUES[name] });
  await changeIt(first?.[name]);
  expect(await readAttempt(run?.id ?? '')).toEqual(first);
});

test.each(BOTH)('nothing, $when, when the row of one is not as it was locked: $what', async ({ save, change }) => {
  const { written, stored } = await write(save, (one, other) => {
    Object.assign(other, { locked: { ...other.locked, epoch: 7 } });
    [one, other].forEach(change);
  });
  await expect(written).rejects.toThrow('A locked run was changed by somebody else');
  expect(await stored()).toMatchObject([
    { seq: 1, attempts: 0 },
    { seq: 1, attempts: 0 },
  ]);
});

test('the claim and the epoch that a frame is known by are written, whether they are those that were locked or not', async () => {
  const other = { lastClaimId: '0197a1b2-0000-7000-8000-00000000000c', lastEpoch: 5 };
  let expected: unknown[] = [];
  let ids: string[] = [];
  const { written } = await write(commitCheckpoints, (one, two) => {
    [one, two].forEach(step);
    changeRun(two, other);
    expected = [
      { claim: one.locked.claimId, epoch: one.locked.epoch },
      { claim: other.lastClaimId, epoch: other.lastEpoch },
    ];
    ids = [one.run.id, two.run.id];
  });
  await written;
  const found = await rows<{ id: string }>(onward.source, 'SELECT id, last_claim_id AS claim, last_epoch AS epoch FROM runs WHERE id = ANY ($1)', [ids]);
  expect(ids.map((id) => found.find((row) => row.id === id))).toMatchObject(expected);
});

test.each(WAYS)('nothing, %s, when an attempt that was read is not there', async (_when, save) => {
  const { written, stored } = await write(save, (one, other) => {
    [one, other].forEach(step);
    other.stored.set(1, [blank(other, 1, 'start', 'trigger')]);
  });
  await expect(written).rejects.toThrow('An attempt of a locked run is gone');
  expect(await stored()).toMatchObject([
    { seq: 1, attempts: 0 },
    { seq: 1, attempts: 0 },
  ]);
});
