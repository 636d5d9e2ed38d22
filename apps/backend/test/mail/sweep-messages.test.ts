import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { change, rows } from '../../src/database/sql.js';
import { endMessage } from '../../src/mail/end-message.js';
import { sweepMessages } from '../../src/mail/sweep-messages.js';
import { type MailBench, mailBench } from './mail-bench.js';

let bench: MailBench;
beforeAll(async () => {
  bench = await mailBench();
});
beforeEach(async () => {
  await change(bench.source, 'DELETE FROM messages');
  bench.told.length = 0;
});
afterAll(() => bench.close());

const sweep = () => sweepMessages(bench.source, bench.teller, { isQueueThere: true });
const setTime = (id: string, column: 'begun_until' | 'woken_at', agoSeconds: number) =>
  change(bench.source, `UPDATE messages SET ${column} = clock_timestamp() - $2 * interval '1 s' WHERE id = $1`, [id, agoSeconds]);
const jobs = () => bench.told.flatMap(({ mail }) => mail);

describe('prepared messages', () => {
  it('one the queue was never told of, or was told of over 4 seconds ago, is enqueued; one told of lately is not', async () => {
    const never = await bench.message();
    const old = await bench.message({ try: 2 });
    const lately = await bench.message();
    await setTime(old.id, 'woken_at', 5);
    await setTime(lately.id, 'woken_at', 1);
    expect(await sweep()).toEqual({ lapsed: 0, enqueued: 2 });
    expect(jobs()).toEqual(
      expect.arrayContaining([
        { messageId: never.id, try: 1 },
        { messageId: old.id, try: 2 },
      ]),
    );
    expect(await sweep()).toEqual({ lapsed: 0, enqueued: 0 });
  });

  it.each(['begun', 'sent', 'failed', 'uncertain', 'skipped'] as const)('one that is %s is not enqueued', async (state) => {
    await bench.message({ state });
    expect(await sweep()).toEqual({ lapsed: 0, enqueued: 0 });
  });

  it('two sweepers at once enqueue each message once', async () => {
    await Promise.all(Array.from({ length: 30 }, () => bench.message()));
    const passes = await Promise.all([sweep(), sweep(), sweep()]);
    expect(passes.reduce((sum, { enqueued }) => sum + enqueued, 0)).toBe(30);
    expect(new Set(jobs().map(({ messageId }) => messageId)).size).toBe(30);
  });
});

describe('begun messages', () => {
  it('one within its time is left alone', async () => {
    const { id } = await bench.message({ state: 'begun' });
    expect((await sweep()).lapsed).toBe(0);
    expect((await bench.readMessage(id)).state).toBe('begun');
  });

  it('F52: one past its time is uncertain: prepared again the first time, the run goes on marked the second', async () => {
    const first = await bench.message({ state: 'begun' });
    const second = await bench.message({ state: 'begun', try: 2, uncertainTries: 1 });
    for (const { id } of [first, second]) await setTime(id, 'begun_until', 1);
    expect(await sweep()).toEqual({ lapsed: 2, enqueued: 1 });
    expect(await bench.readMessage(first.id)).toMatchObject({ state: 'prepared', try: 2, resultTry: 0, failure: { code: 'mail_uncertain' } });
    expect(jobs()).toEqual([{ messageId: first.id, try: 2 }]);
    expect((await bench.readRun(first.runId)).resolution).toBeNull();
    expect(await bench.readMessage(second.id)).toMatchObject({ state: 'uncertain', try: 2 });
    const { resolution, claimId } = await bench.readRun(second.runId);
    expect(resolution).toMatchObject({ kind: 'done', mark: 'uncertain' });
    expect(bench.told.flatMap(({ wakeUps }) => wakeUps)).toMatchObject([{ runId: second.runId, claimId, delayMs: 0 }]);
  });

  it('a late result settles a lapsed try whose repeat has not begun, and the repeat falls away', async () => {
    const { id, runId } = await bench.message({ state: 'begun' });
    await setTime(id, 'begun_until', 1);
    await sweep();
    const late = { messageId: id, try: 1, result: { kind: 'sent' as const, response: '250 ok', at: '2026-04-01T09:00:00Z' } };
    expect(await bench.inTx((tx) => endMessage(tx, bench.bus, late))).toEqual({ kind: 'stored' });
    expect((await bench.readMessage(id)).state).toBe('sent');
    expect((await bench.readRun(runId)).resolution).toMatchObject({ kind: 'done' });
    await change(bench.source, 'UPDATE messages SET woken_at = NULL');
    expect((await sweep()).enqueued).toBe(0);
  });

  it('a lapse and a result at once leave one story: sent, and the run woken once', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { id, runId } = await bench.message({ state: 'begun' });
      await setTime(id, 'begun_until', 1);
      const told = { messageId: id, try: 1, result: { kind: 'sent' as const, response: '250 ok', at: '2026-04-01T09:00:00Z' } };
      await Promise.all([sweep(), bench.inTx((tx) => endMessage(tx, bench.bus, told))]);
      expect((await bench.readMessage(id)).state).toBe('sent');
      expect(bench.told.flatMap(({ wakeUps }) => wakeUps).filter((wakeUp) => wakeUp.runId === runId)).toHaveLength(1);
    }
  });

  it('one whose run somebody holds is left to the next pass, and the others are not kept waiting', async () => {
    const held = await bench.message({ state: 'begun' });
    const free = await bench.message({ state: 'begun' });
    for (const { id } of [held, free]) await setTime(id, 'begun_until', 1);
    await bench.inTx(async (tx) => {
      await rows(tx, 'SELECT 1 FROM runs WHERE id = $1 FOR UPDATE', [held.runId]);
      expect((await sweep()).lapsed).toBe(1);
    });
    expect((await bench.readMessage(free.id)).state).toBe('prepared');
    expect((await sweep()).lapsed).toBe(1);
    expect((await bench.readMessage(held.id)).state).toBe('prepared');
  });

  it('one without a run, and one whose run was deleted, lapse too', async () => {
    const notice = await bench.message({ state: 'begun' });
    const orphan = await bench.message({ state: 'begun' });
    await change(bench.source, 'UPDATE messages SET run_id = NULL, seq = NULL WHERE id = $1', [notice.id]);
    await change(bench.source, 'DELETE FROM runs WHERE id = $1', [orphan.runId]);
    for (const { id } of [notice, orphan]) await setTime(id, 'begun_until', 1);
    expect((await sweep()).lapsed).toBe(2);
  });

  it('more than a batch is done in one pass', async () => {
    const many = await Promise.all(Array.from({ length: 205 }, () => bench.message({ state: 'begun' })));
    await change(bench.source, `UPDATE messages SET begun_until = clock_timestamp() - interval '1 s' WHERE state = 'begun'`);
    expect((await sweep()).lapsed).toBe(many.length);
  });
});
