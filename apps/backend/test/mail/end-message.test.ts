import { randomUUID } from 'node:crypto';
import type { MailResult } from '@onward/contracts/mail';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { change, rows } from '../../src/database/sql.js';
import { newId } from '../../src/database/new-id.js';
import { beginMessage } from '../../src/mail/begin-message.js';
import { endMessage } from '../../src/mail/end-message.js';
import { MESSAGE_STATES } from '../../src/mail/message.entity.js';
import { type MailBench, mailBench } from './mail-bench.js';

let bench: MailBench;
beforeAll(async () => {
  bench = await mailBench();
});
beforeEach(() => {
  bench.emitted.length = 0;
});
afterAll(() => bench.close());

const end = (messageId: string, tryNumber: number, result: MailResult) => bench.inTx((tx) => endMessage(tx, bench.bus, { messageId, try: tryNumber, result }));

const SENT: MailResult = { kind: 'sent', response: '250 ok', at: '2026-04-01T09:00:00Z' };
const REFUSED: MailResult = { kind: 'failed', failure: { code: 'smtp_permanent', message: '554 no' } };
const BUSY: MailResult = { kind: 'failed', failure: { code: 'smtp_retryable', message: '451 later' } };
const BAD_ADDRESS: MailResult = { kind: 'failed', failure: { code: 'address_invalid', message: '550 5.1.1 no such user' } };
const CUT: MailResult = { kind: 'uncertain', failure: { code: 'mail_uncertain', message: 'cut after DATA' } };
const RESULTS = { sent: SENT, failed: REFUSED, uncertain: CUT };

describe('which result counts', () => {
  /** Of a message at try 2: the try in hand, one whose repeat has not begun, one that had no repeat left; each only when not told before. */
  const COUNTS: Record<string, 'now' | 'late'> = { 'begun/2': 'now', 'prepared/1': 'late', 'uncertain/2': 'late' };
  const cases = MESSAGE_STATES.flatMap((state) =>
    [1, 2, 3].flatMap((told) =>
      [0, 1, 2].flatMap((resultTry) => (['sent', 'failed', 'uncertain'] as const).map((kind) => [state, resultTry, told, kind] as const)),
    ),
  );

  it.each(cases)('a message %s at try 2, told of up to try %i, hears of try %i: %s', async (state, resultTry, told, kind) => {
    const uncertainTries = state === 'uncertain' ? 2 : 1;
    const { id, runId } = await bench.message({ state, try: 2, resultTry, uncertainTries });
    const before = await bench.readMessage(id);
    const reply = await end(id, told, RESULTS[kind]);
    const counts = told > resultTry ? COUNTS[`${state}/${told}`] : undefined;
    const after = await bench.readMessage(id);
    const { resolution } = await bench.readRun(runId);

    if (counts === undefined) {
      expect(reply).toEqual({ kind: 'already', state });
      expect(after).toEqual(before);
      expect(resolution).toBeNull();
      return;
    }
    expect(reply).toEqual({ kind: 'stored' });
    expect(after.resultTry).toBe(told);
    if (kind === 'uncertain' && counts === 'late') {
      expect(after).toEqual({ ...before, resultTry: told });
      expect(resolution).toBeNull();
      return;
    }
    expect(after).toMatchObject({ state: kind, try: 2, begunUntil: null, endedAt: expect.any(Date), messageIdHeader: before.messageIdHeader });
    expect(resolution).toMatchObject(
      { sent: { kind: 'done' }, failed: { kind: 'failed', failure: { code: 'smtp_permanent' } }, uncertain: { kind: 'done', mark: 'uncertain' } }[kind],
    );
  });

  it('a result for a message that does not exist changes nothing', async () => {
    expect(await end(newId(), 1, SENT)).toEqual({ kind: 'already', state: 'unknown' });
  });

  it('the same result told twice is stored once, and one event is emitted', async () => {
    const { id } = await bench.message({ state: 'begun' });
    expect(await end(id, 1, SENT)).toEqual({ kind: 'stored' });
    expect(await end(id, 1, SENT)).toEqual({ kind: 'already', state: 'sent' });
    expect(bench.emitted.map(({ type }) => type)).toEqual(['mail.sent']);
  });

  it('of results told at once the first wins and the run hears of that one only', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { id, runId } = await bench.message({ state: 'begun' });
      const told = [SENT, REFUSED, SENT, REFUSED];
      const replies = await Promise.all(told.map((result) => end(id, 1, result)));
      const stored = replies.flatMap(({ kind }, index) => (kind === 'stored' ? [told[index]?.kind] : []));
      expect(stored).toHaveLength(1);
      expect((await bench.readMessage(id)).state).toBe(stored[0]);
      expect((await bench.readRun(runId)).resolution?.kind).toBe(stored[0] === 'sent' ? 'done' : 'failed');
    }
  });
});

describe('what a result does', () => {
  it('sent: the run goes on with the Message-ID, and mail.sent is emitted one deeper than the run', async () => {
    const { id, runId, contactId, address } = await bench.message({ state: 'begun' });
    await end(id, 1, SENT);
    expect(await bench.readMessage(id)).toMatchObject({ state: 'sent', response: '250 ok' });
    expect(await bench.readRun(runId)).toMatchObject({
      state: 'waiting',
      isDue: true,
      resolution: { kind: 'done', output: { messageId: id, messageIdHeader: `<${id}@example.test>`, to: address } },
    });
    expect(bench.emitted).toMatchObject([{ type: 'mail.sent', contactId, depth: 2, payload: { messageId: id, to: address, runId } }]);
  });

  it('failed for now: the run hears of a failure that is worth another attempt', async () => {
    const { id, runId } = await bench.message({ state: 'begun' });
    await end(id, 1, BUSY);
    expect(await bench.readMessage(id)).toMatchObject({ state: 'failed', try: 1, failure: { code: 'smtp_retryable' } });
    expect((await bench.readRun(runId)).resolution).toEqual({ kind: 'failed', failure: { code: 'smtp_retryable', message: '451 later' } });
    expect(bench.emitted).toEqual([]);
  });

  it('a bad address is noted at the contact, unless the contact has another address by now', async () => {
    const kept = await bench.message({ state: 'begun' });
    const moved = await bench.message({ state: 'begun' });
    await change(bench.source, `UPDATE contacts SET email = 'new-' || email WHERE id = $1`, [moved.contactId]);
    await end(kept.id, 1, BAD_ADDRESS);
    await end(moved.id, 1, BAD_ADDRESS);
    const found = await rows<{ id: string; email_problem: string | null }>(bench.source, 'SELECT id, email_problem FROM contacts WHERE id = ANY ($1)', [
      [kept.contactId, moved.contactId],
    ]);
    expect(new Map(found.map((contact) => [contact.id, contact.email_problem]))).toEqual(
      new Map([
        [kept.contactId, '550 5.1.1 no such user'],
        [moved.contactId, null],
      ]),
    );
  });

  it('F52: an uncertain delivery is repeated once with the same Message-ID, then the run goes on, marked', async () => {
    const { id, runId } = await bench.message({ state: 'begun' });
    await end(id, 1, CUT);
    expect(await bench.readMessage(id)).toMatchObject({ state: 'prepared', try: 2, uncertainTries: 1, messageIdHeader: `<${id}@example.test>`, wokenAt: null });
    expect((await bench.readRun(runId)).resolution).toBeNull();

    expect(await bench.inTx((tx) => beginMessage(tx, { messageId: id, try: 2, callId: randomUUID() }))).toMatchObject({
      kind: 'send',
      message: { messageIdHeader: `<${id}@example.test>` },
    });
    await end(id, 2, CUT);
    expect(await bench.readMessage(id)).toMatchObject({ state: 'uncertain', try: 2, uncertainTries: 2 });
    expect((await bench.readRun(runId)).resolution).toMatchObject({ kind: 'done', mark: 'uncertain', output: { messageId: id } });
  });

  it('F52: the first result of a try stands: "sent" told after "uncertain" of the same try changes nothing', async () => {
    const { id } = await bench.message({ state: 'begun' });
    await end(id, 1, CUT);
    expect(await end(id, 1, SENT)).toEqual({ kind: 'already', state: 'prepared' });
    expect((await bench.readMessage(id)).state).toBe('prepared');
  });

  it('an uncertain try after one that failed for certain is still repeated once', async () => {
    const { id } = await bench.message({ state: 'begun', try: 2, resultTry: 1 });
    await end(id, 2, CUT);
    expect(await bench.readMessage(id)).toMatchObject({ state: 'prepared', try: 3, uncertainTries: 1 });
  });

  it('a result for a run that has ended is kept at the message and moves no run', async () => {
    const { id, runId } = await bench.message({ state: 'begun' });
    await change(bench.source, `UPDATE runs SET state = 'cancelled', wait_key = NULL, ended_at = now() WHERE id = $1`, [runId]);
    expect(await end(id, 1, SENT)).toEqual({ kind: 'stored' });
    expect((await bench.readMessage(id)).state).toBe('sent');
    expect(await bench.readRun(runId)).toMatchObject({ state: 'cancelled', resolution: null, isDue: false });
  });

  it('a run that has not yet come to rest keeps the resolution', async () => {
    const { id, runId } = await bench.message({ state: 'begun' });
    await change(bench.source, `UPDATE runs SET state = 'running', lease_until = now() WHERE id = $1`, [runId]);
    await end(id, 1, SENT);
    expect(await bench.readRun(runId)).toMatchObject({ state: 'running', resolution: { kind: 'done' }, isDue: false });
  });

  it('a begun try that comes to an end while it is being cancelled leaves the cancel as it is', async () => {
    const { id, runId } = await bench.message({ state: 'begun' });
    const { ending } = await bench.inTx(async (tx) => {
      await change(tx, `UPDATE runs SET state = 'cancelled', wait_key = NULL, ended_at = now() WHERE id = $1`, [runId]);
      const told = end(id, 1, SENT);
      await bench.untilBlocked(1);
      return { ending: told };
    });
    expect(await ending).toEqual({ kind: 'stored' });
    expect(await bench.readRun(runId)).toMatchObject({ state: 'cancelled', resolution: null });
  });
});
