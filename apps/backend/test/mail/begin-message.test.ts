import { randomUUID } from 'node:crypto';
import { BEGUN_FOR_MS } from '@onward/contracts/mail';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { change, rows } from '../../src/database/sql.js';
import { beginMessage } from '../../src/mail/begin-message.js';
import { MESSAGE_STATES } from '../../src/mail/message.entity.js';
import { SUPPRESSION_REASONS } from '../../src/mail/suppression.entity.js';
import { newId } from '../../src/database/new-id.js';
import { type MailBench, mailBench } from './mail-bench.js';

let bench: MailBench;
beforeAll(async () => {
  bench = await mailBench();
});
afterAll(() => bench.close());

const begin = (messageId: string, tryNumber = 1) => bench.inTx((tx) => beginMessage(tx, { messageId, try: tryNumber, callId: randomUUID() }));

describe('which try may begin', () => {
  const cases = MESSAGE_STATES.flatMap((state) => [1, 2, 3].map((asked) => [state, asked] as const));

  it.each(cases)('a message that is %s at try 2 is asked for try %i', async (state, asked) => {
    const { id, runId } = await bench.message({ state, try: 2 });
    const before = await bench.readMessage(id);
    const reply = await begin(id, asked);
    if (state === 'prepared' && asked === 2) {
      expect(reply.kind).toBe('send');
      expect(await bench.readMessage(id)).toEqual({ ...before, state: 'begun', begunUntil: expect.any(Date), begunBy: expect.any(String) });
    } else {
      expect(reply).toEqual({ kind: 'already', state });
      expect(await bench.readMessage(id)).toEqual(before);
    }
    expect((await bench.readRun(runId)).resolution).toBeNull();
  });

  it('the call that began the try, sent again because its answer was lost, is told to send again; another is not', async () => {
    const { id } = await bench.message();
    const callId = randomUUID();
    const first = await bench.inTx((tx) => beginMessage(tx, { messageId: id, try: 1, callId }));
    const begun = await bench.readMessage(id);
    expect(await bench.inTx((tx) => beginMessage(tx, { messageId: id, try: 1, callId }))).toEqual(first);
    expect(await begin(id, 1)).toEqual({ kind: 'already', state: 'begun' });
    expect(await bench.readMessage(id)).toEqual(begun);
  });

  it('the answer is the whole message with its fixed Message-ID', async () => {
    const { id, address } = await bench.message();
    expect(await begin(id)).toEqual({
      kind: 'send',
      message: {
        messageId: id,
        try: 1,
        messageIdHeader: `<${id}@example.test>`,
        from: { name: 'Onward', address: 'onward@example.test' },
        to: { name: '', address },
        replyTo: null,
        subject: 'Hi',
        html: null,
        text: 'Hello',
      },
    });
  });

  it('a begun try has 90 seconds by the real clock of the database', async () => {
    const { id } = await bench.message();
    await begin(id);
    const [left] = await rows<{ ms: number }>(
      bench.source,
      `SELECT extract(epoch FROM begun_until - clock_timestamp()) * 1000 AS ms FROM messages WHERE id = $1`,
      [id],
    );
    expect(Number(left?.ms)).toBeGreaterThan(BEGUN_FOR_MS - 10_000);
    expect(Number(left?.ms)).toBeLessThanOrEqual(BEGUN_FOR_MS);
  });

  it('a message that does not exist is skipped', async () => {
    expect(await begin(newId())).toEqual({ kind: 'skip', reason: 'unknown_message' });
  });

  it.each(['a run', 'no run'])('of many who ask at once for a message of %s exactly one is told to send', async (whose) => {
    const { id } = await bench.message();
    if (whose === 'no run') await change(bench.source, 'UPDATE messages SET run_id = NULL, seq = NULL WHERE id = $1', [id]);
    const replies = await Promise.all(Array.from({ length: 8 }, () => begin(id)));
    expect(replies.filter(({ kind }) => kind === 'send')).toHaveLength(1);
    expect(replies.filter(({ kind }) => kind === 'already')).toHaveLength(7);
  });
});

describe('the suppression gate', () => {
  const cases = SUPPRESSION_REASONS.flatMap((reason) => [true, false].map((isTransactional) => [reason, isTransactional] as const));

  it.each(cases)('an address under %s, transactional mail: %s', async (reason, isTransactional) => {
    const { id, runId, address } = await bench.message({ isTransactional });
    await change(bench.source, 'INSERT INTO suppressions (email, reason) VALUES ($1, $2)', [address, reason]);
    const reply = await begin(id);
    if (reason === 'unsubscribed' && isTransactional) {
      expect(reply.kind).toBe('send');
      return;
    }
    expect(reply).toEqual({ kind: 'skip', reason });
    expect(await bench.readMessage(id)).toMatchObject({ state: 'skipped', skipReason: reason, endedAt: expect.any(Date) });
    expect(await bench.readRun(runId)).toMatchObject({
      state: 'waiting',
      isDue: true,
      resolution: { kind: 'done', mark: 'skipped', output: { skipped: reason } },
    });
  });

  it('F51: an opt-out between queueing and SMTP skips the queued mail, and the run is woken', async () => {
    const { id, runId, address } = await bench.message();
    const before = await bench.readRun(runId);
    await change(bench.source, `INSERT INTO suppressions (email, reason) VALUES ($1, 'unsubscribed')`, [address]);
    expect(await begin(id)).toEqual({ kind: 'skip', reason: 'unsubscribed' });
    const { claimId } = await bench.readRun(runId);
    expect(claimId).not.toBe(before.claimId);
    expect(bench.told.at(-1)?.wakeUps).toMatchObject([{ runId, claimId, delayMs: 0 }]);
  });

  it('of several reasons the gravest is named', async () => {
    const { id, address } = await bench.message();
    for (const reason of ['unsubscribed', 'manual', 'bounce', 'complaint'])
      await change(bench.source, 'INSERT INTO suppressions VALUES ($1, $2)', [address, reason]);
    expect(await begin(id)).toEqual({ kind: 'skip', reason: 'complaint' });
  });

  it('an address is the same in any case', async () => {
    const { id, address } = await bench.message();
    await change(bench.source, `UPDATE messages SET to_mailbox = jsonb_build_object('name', '', 'address', upper($2)) WHERE id = $1`, [id, address]);
    await change(bench.source, `INSERT INTO suppressions VALUES ($1, 'bounce')`, [address]);
    expect(await begin(id)).toEqual({ kind: 'skip', reason: 'bounce' });
  });

  it('an address found unusable is skipped, but not because of what was wrong with another address', async () => {
    const bad = await bench.message();
    await change(bench.source, `UPDATE contacts SET email_problem = 'no such mailbox' WHERE id = $1`, [bad.contactId]);
    expect(await begin(bad.id)).toEqual({ kind: 'skip', reason: 'bad_address' });

    const moved = await bench.message();
    await change(bench.source, `UPDATE contacts SET email = 'new-' || email, email_problem = 'no such mailbox' WHERE id = $1`, [moved.contactId]);
    expect((await begin(moved.id)).kind).toBe('send');
  });

  it('a contact deleted meanwhile gets nothing', async () => {
    const { id, contactId } = await bench.message({ isTransactional: true });
    await change(bench.source, 'DELETE FROM contacts WHERE id = $1', [contactId]);
    expect(await begin(id)).toEqual({ kind: 'skip', reason: 'contact_deleted' });
  });
});

describe('the run is asked again', () => {
  it.each([
    ['waiting for the mail', 'send', `state = 'waiting'`],
    ['running on the step, its rest not yet recorded', 'send', `state = 'running', lease_until = clock_timestamp()`],
    ['pending on the step after a lapse', 'send', `state = 'pending', due_at = now()`],
    ['cancelled', 'run_cancelled', `state = 'cancelled', ended_at = now()`],
    ['to be cancelled', 'run_cancelled', `state = 'running', lease_until = now(), is_cancel_asked = true`],
    ['failed', 'run_moved_on', `state = 'failed', ended_at = now()`],
    ['dead-lettered', 'run_moved_on', `state = 'dead_lettered', ended_at = now()`],
    ['succeeded', 'run_moved_on', `state = 'succeeded', ended_at = now()`],
    ['at a later step', 'run_moved_on', `seq = 4`],
    ['waiting for something else', 'run_moved_on', `wait_key = 'event:x'`],
  ])('a run that is %s: %s', async (_, answer, set) => {
    const { id, runId } = await bench.message();
    await change(bench.source, `UPDATE runs SET ${set} WHERE id = $1`, [runId]);
    const reply = await begin(id);
    if (answer === 'send') expect(reply.kind).toBe('send');
    else {
      expect(reply).toEqual({ kind: 'skip', reason: answer });
      expect(await bench.readMessage(id)).toMatchObject({ state: 'skipped', skipReason: answer });
    }
  });

  it('a run that was deleted gets no mail', async () => {
    const { id, runId } = await bench.message();
    await change(bench.source, 'DELETE FROM runs WHERE id = $1', [runId]);
    expect(await begin(id)).toEqual({ kind: 'skip', reason: 'run_gone' });
  });

  it('a cancel that is being committed is waited for and seen', async () => {
    const { id, runId } = await bench.message();
    const { reply } = await bench.inTx(async (tx) => {
      await change(tx, `UPDATE runs SET state = 'cancelled', wait_key = NULL, ended_at = now() WHERE id = $1`, [runId]);
      const asked = begin(id);
      await bench.untilBlocked(1);
      return { reply: asked };
    });
    expect(await reply).toEqual({ kind: 'skip', reason: 'run_cancelled' });
  });
});
