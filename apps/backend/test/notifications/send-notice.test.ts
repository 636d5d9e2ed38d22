import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { change, rows } from '../../src/database/sql.js';
import { beginMessage } from '../../src/mail/begin-message.js';
import { Message } from '../../src/mail/message.entity.js';
import { Notice } from '../../src/notifications/notice.entity.js';
import { sendNotice } from '../../src/notifications/send-notice.js';
import { sweepNotices } from '../../src/notifications/sweep-notices.js';
import { type MailBench, mailBench } from '../mail/mail-bench.js';

const SETTINGS = { mailFrom: 'Onward <onward@example.test>', notifyTo: ['ops@example.test'], publicUrl: 'https://onward.example.test' };

let bench: MailBench;
beforeAll(async () => {
  bench = await mailBench();
});
afterAll(() => bench.close());

async function notice(runId?: string): Promise<Notice> {
  const id = newId();
  const failure = { code: 'http_permanent', message: 'The target answered 404 <b>\r\nX-Evil: 1' };
  await change(bench.source, `INSERT INTO notices (id, run_id, seq, state, node, failure) VALUES ($1, $2, 3, 'failed', 'mail_1', $3)`, [
    id,
    runId ?? (await bench.run(await bench.contact())),
    JSON.stringify(failure),
  ]);
  return bench.source.manager.findOneByOrFail(Notice, { id });
}

const setWorkflow = (name: string, settings: unknown) =>
  change(bench.source, 'UPDATE workflows SET name = $2, settings = $3 WHERE id = $1', [bench.workflowId, name, JSON.stringify(settings)]);
const messagesOf = (noticeId: string) => bench.source.manager.find(Message, { where: { noticeId }, order: { id: 'ASC' } });

describe('a notice', () => {
  it('goes to whom the workflow and the settings name, once each, whatever the case', async () => {
    await setWorkflow('Welcome', { notify: ['Author@example.test', 'OPS@example.test'] });
    const unsent = await notice();
    expect(await bench.inTx((tx) => sendNotice(tx, unsent, SETTINGS))).toBe(2);
    const messages = await messagesOf(unsent.id);
    expect(messages.map(({ to }) => to.address).sort()).toEqual(['author@example.test', 'ops@example.test']);
    expect(messages[0]).toMatchObject({
      runId: null,
      contactId: null,
      isTransactional: true,
      state: 'prepared',
      from: { name: 'Onward', address: 'onward@example.test' },
    });
    expect(
      bench.told
        .at(-1)
        ?.mail.map(({ messageId }) => messageId)
        .sort(),
    ).toEqual(messages.map(({ id }) => id).sort());
    expect((await bench.source.manager.findOneByOrFail(Notice, { id: unsent.id })).sentAt).toBeInstanceOf(Date);
  });

  it('names workflow, run, node and error, links to the run, and is safe in each part', async () => {
    await setWorkflow('Welcome\r\nBcc: <x>', {});
    const unsent = await notice();
    await bench.inTx((tx) => sendNotice(tx, unsent, SETTINGS));
    const [message] = await messagesOf(unsent.id);
    expect(message?.subject).toMatch(/^"Welcome Bcc: <x>" failed at Say hello for [^ ]+@example\.test$/);
    for (const part of [
      'Workflow',
      `Run`,
      unsent.runId,
      'Say hello (mail_1)',
      'http_permanent',
      `https://onward.example.test/api/v1/runs/${unsent.runId}/replay`,
    ]) {
      expect(message?.text).toContain(part);
      expect(message?.html).toContain(part);
    }
    expect(message?.text).toContain('404 <b> X-Evil: 1');
    expect(message?.html).toContain('404 &lt;b&gt; X-Evil: 1');
    expect(message?.html).not.toContain('<x>');
  });

  it('sent again writes no second message', async () => {
    await setWorkflow('Welcome', {});
    const unsent = await notice();
    expect(await bench.inTx((tx) => sendNotice(tx, unsent, SETTINGS))).toBe(1);
    expect(await bench.inTx((tx) => sendNotice(tx, unsent, SETTINGS))).toBe(0);
    expect(await messagesOf(unsent.id)).toHaveLength(1);
  });

  it('is done when there is nobody to tell, and when the run or its settings cannot be read', async () => {
    await setWorkflow('Welcome', { notify: 'not a list' });
    for (const unsent of [await notice(), await notice(newId())]) {
      expect(await bench.inTx((tx) => sendNotice(tx, unsent, { ...SETTINGS, notifyTo: [] }))).toBe(0);
      expect((await bench.source.manager.findOneByOrFail(Notice, { id: unsent.id })).sentAt).not.toBeNull();
    }
  });

  it('can be handed to SMTP though it has no run, but not to an address that bounced', async () => {
    await setWorkflow('Welcome', { notify: ['bounced@example.test'] });
    await change(bench.source, `INSERT INTO suppressions VALUES ('bounced@example.test', 'bounce')`);
    const unsent = await notice();
    await bench.inTx((tx) => sendNotice(tx, unsent, SETTINGS));
    const replies = await Promise.all(
      (await messagesOf(unsent.id)).map(({ id, to }) =>
        bench.inTx(async (tx) => [to.address, (await beginMessage(tx, { messageId: id, try: 1, callId: randomUUID() })).kind]),
      ),
    );
    expect(new Map(replies as [string, string][])).toEqual(
      new Map([
        ['bounced@example.test', 'skip'],
        ['ops@example.test', 'send'],
      ]),
    );
  });
});

describe('the sweep of notices', () => {
  it('sends what is left, once, however many sweep at once', async () => {
    await setWorkflow('Welcome', {});
    await change(bench.source, 'UPDATE notices SET sent_at = now()');
    const unsent = await Promise.all(Array.from({ length: 10 }, () => notice()));
    const sweeps = await Promise.all([1, 2, 3].map(() => sweepNotices(bench.source, bench.teller, SETTINGS)));
    expect(sweeps.reduce((sum, sent) => sum + sent, 0)).toBe(10);
    for (const { id } of unsent) expect(await messagesOf(id)).toHaveLength(1);
    expect(await sweepNotices(bench.source, bench.teller, SETTINGS)).toBe(0);
  });

  it('leaves a notice that somebody is sending to them', async () => {
    const held = await notice();
    await bench.inTx(async (tx) => {
      await rows(tx, 'SELECT 1 FROM notices WHERE id = $1 FOR UPDATE', [held.id]);
      expect(await sweepNotices(bench.source, bench.teller, SETTINGS)).toBe(0);
    });
  });

  it('one that cannot be sent is told of and hinders no other', async () => {
    await change(bench.source, 'UPDATE notices SET sent_at = now()');
    const broken = await notice();
    const good = await notice();
    await change(bench.source, `UPDATE notices SET failure = 'null' WHERE id = $1`, [broken.id]);
    await expect(sweepNotices(bench.source, bench.teller, SETTINGS)).rejects.toThrow();
    expect(await messagesOf(good.id)).toHaveLength(1);
    expect((await bench.source.manager.findOneByOrFail(Notice, { id: broken.id })).sentAt).toBeNull();
  });
});
