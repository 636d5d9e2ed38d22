import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ActionResult, StepContact } from '../../src/actions/action.js';
import { sendMail } from '../../src/actions/send-mail/send-mail.action.js';
import { change, rows, type Tx } from '../../src/database/sql.js';
import { beginMessage } from '../../src/mail/begin-message.js';
import { endMessage } from '../../src/mail/end-message.js';
import { Message } from '../../src/mail/message.entity.js';
import { type MailBench, mailBench } from '../mail/mail-bench.js';
import { scopeForTest } from './scope-for-test.js';

const FROM = { name: 'Onward', address: 'onward@mail.example.test' };
const action = sendMail({ from: FROM });

let bench: MailBench;
beforeAll(async () => {
  bench = await mailBench();
});
afterAll(() => bench.close());

type Case = { runId: string; contact: StepContact | null; template: string };

async function prepared({ email, template }: { email?: string | null; template?: string } = {}): Promise<Case> {
  const contactId = await bench.contact(email);
  const [contact] = await rows<StepContact>(
    bench.source,
    'SELECT id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes FROM contacts WHERE id = $1',
    [contactId],
  );
  return { runId: await bench.run(contactId), contact: contact ?? null, template: template ?? (await bench.template()) };
}

function executeIn(tx: Tx, { runId, contact, template }: Case, scope = scopeForTest()): Promise<ActionResult> {
  const step = {
    tx,
    runId,
    seq: 3,
    n: 1,
    node: 'mail_1',
    workflowId: bench.workflowId,
    config: { template },
    contactId: contact?.id ?? null,
    contact,
    scope,
    now: new Date(),
    depth: 2,
  };
  return action.execute(step);
}
const execute = (given: Case, scope = scopeForTest()) => bench.inTx((tx) => executeIn(tx, given, scope));
const messagesOf = (runId: string) => bench.source.manager.findBy(Message, { runId });
const failureOf = (result: ActionResult) => (result.kind === 'outcome' && result.outcome.kind === 'failed' ? result.outcome.failure.code : result);

describe('sending', () => {
  it('writes one filled message, has the queue told of it, and rests until it is handed over', async () => {
    const given = await prepared();
    const result = await execute(given);
    const [message, ...more] = await messagesOf(given.runId);
    expect(more).toEqual([]);
    expect(message).toMatchObject({
      seq: 3,
      contactId: given.contact?.id,
      templateId: given.template,
      state: 'prepared',
      try: 1,
      isTransactional: false,
      messageIdHeader: `<${message?.id}@mail.example.test>`,
      from: FROM,
      to: { name: '', address: given.contact?.email },
      replyTo: null,
      subject: 'Hi Ada',
      html: '<p>Ada</p>',
      text: null,
    });
    expect(result).toEqual({
      kind: 'outcome',
      outcome: { kind: 'suspended', key: `mail:${message?.id}`, why: `waiting for the mail to ${given.contact?.email} to be handed over` },
      input: { template: given.template, to: given.contact?.email, subject: 'Hi Ada' },
    });
    expect(bench.told.at(-1)).toEqual({ wakeUps: [], mail: [{ messageId: message?.id, try: 1 }] });
  });

  it('finds its template by name as well as by id', async () => {
    const given = await prepared();
    const [template] = await rows<{ name: string }>(bench.source, 'SELECT name FROM templates WHERE id = $1', [given.template]);
    await execute({ ...given, template: template?.name ?? '' });
    expect((await messagesOf(given.runId))[0]?.templateId).toBe(given.template);
  });

  it('is transactional when its template is, and answers go where the template says', async () => {
    const given = await prepared({ template: await bench.template({ isTransactional: true, replyTo: '{{ event.owner }}' }) });
    await execute(given, scopeForTest({ event: { owner: 'Bo <bo@example.test>' } }));
    expect((await messagesOf(given.runId))[0]).toMatchObject({ isTransactional: true, replyTo: { name: 'Bo', address: 'bo@example.test' } });
  });

  it('F46: a subject from an event stays one line', async () => {
    const given = await prepared({ template: await bench.template({ subject: '{{ event.title }}' }) });
    await execute(given, scopeForTest({ event: { title: 'Hi\nX-Evil: 1' } }));
    expect((await messagesOf(given.runId))[0]?.subject).not.toMatch(/[\r\n]/);
  });
});

describe('a second entry', () => {
  it('that comes while the message is on its way finds it, also when the template was changed or deleted meanwhile', async () => {
    const given = await prepared();
    const first = await execute(given);
    await change(bench.source, 'DELETE FROM templates WHERE id = $1', [given.template]);
    expect(await execute(given)).toEqual(first);
    expect(await messagesOf(given.runId)).toHaveLength(1);
  });

  it('after a crash before the commit writes the message once', async () => {
    const given = await prepared();
    await expect(
      bench.inTx(async (tx) => {
        await executeIn(tx, given);
        throw new Error('the process dies here');
      }),
    ).rejects.toThrow('dies here');
    expect(await messagesOf(given.runId)).toEqual([]);
    await execute(given);
    expect(await messagesOf(given.runId)).toHaveLength(1);
  });

  it('after a failed try makes the same message ready again, with the same Message-ID and the next try', async () => {
    const given = await prepared();
    await execute(given);
    const [before] = await messagesOf(given.runId);
    const messageId = before?.id ?? '';
    await bench.inTx((tx) => beginMessage(tx, { messageId, try: 1, callId: randomUUID() }));
    const busy = { kind: 'failed' as const, failure: { code: 'smtp_retryable' as const, message: '451 later' } };
    await bench.inTx((tx) => endMessage(tx, bench.bus, { messageId, try: 1, result: busy }));

    expect(await execute(given)).toMatchObject({ outcome: { kind: 'suspended', key: `mail:${messageId}` } });
    const [after, ...more] = await messagesOf(given.runId);
    expect(more).toEqual([]);
    expect(after).toMatchObject({ id: messageId, state: 'prepared', try: 2, messageIdHeader: before?.messageIdHeader, html: before?.html, endedAt: null });
    expect(bench.told.at(-1)?.mail).toEqual([{ messageId, try: 2 }]);
    expect(await bench.inTx((tx) => endMessage(tx, bench.bus, { messageId, try: 1, result: busy }))).toEqual({ kind: 'already', state: 'prepared' });
  });

  it('after the message was settled answers how', async () => {
    const given = await prepared();
    await execute(given);
    const messageId = (await messagesOf(given.runId))[0]?.id ?? '';
    await bench.inTx((tx) => beginMessage(tx, { messageId, try: 1, callId: randomUUID() }));
    await bench.inTx((tx) => endMessage(tx, bench.bus, { messageId, try: 1, result: { kind: 'sent', response: '250', at: new Date().toISOString() } }));
    expect(await execute(given)).toMatchObject({ outcome: { kind: 'done', output: { messageId } } });
  });
});

describe('mail that is not sent', () => {
  it('F51: to an address that has opted out is written as skipped, and the run goes on at once', async () => {
    const given = await prepared();
    await change(bench.source, `INSERT INTO suppressions VALUES ($1, 'unsubscribed')`, [given.contact?.email]);
    bench.told.length = 0;
    expect(await execute(given)).toMatchObject({ outcome: { kind: 'done', mark: 'skipped', output: { skipped: 'unsubscribed' } } });
    expect((await messagesOf(given.runId))[0]).toMatchObject({ state: 'skipped', skipReason: 'unsubscribed', endedAt: expect.any(Date) });
    expect(bench.told).toEqual([]);
  });

  it('F51: transactional mail to an address that has opted out is sent', async () => {
    const given = await prepared({ template: await bench.template({ isTransactional: true }) });
    await change(bench.source, `INSERT INTO suppressions VALUES ($1, 'unsubscribed')`, [given.contact?.email]);
    expect(await execute(given)).toMatchObject({ outcome: { kind: 'suspended' } });
  });

  it('without a contact, without an address, and without its template fails for good', async () => {
    const given = await prepared();
    expect(failureOf(await execute({ ...given, contact: null }))).toBe('contact_missing');
    expect(failureOf(await execute(await prepared({ email: null })))).toBe('address_invalid');
    expect(failureOf(await execute({ ...given, template: 'no such template' }))).toBe('template_missing');
    expect(failureOf(await execute({ ...given, template: given.runId }))).toBe('template_missing');
    expect(await messagesOf(given.runId)).toEqual([]);
  });

  it('F46: a bad address is refused before SMTP, without retry, and the contact is flagged', async () => {
    const given = await prepared({ email: 'a@example.test\r\nrcpt to:<x@evil.example.test>' });
    expect(failureOf(await execute(given))).toBe('address_invalid');
    expect(await messagesOf(given.runId)).toEqual([]);
    expect(await rows(bench.source, 'SELECT email_problem FROM contacts WHERE id = $1', [given.contact?.id])).toEqual([
      { email_problem: 'The address is not a mail address' },
    ]);
  });

  it.each([
    ['a filter that does not exist', { subject: '{{ event.title | nothing_such }}' }],
    ['a reply address that is none', { replyTo: '{{ event.title }}' }],
  ])('F46: %s fails for good with template_error and names the template', async (_, parts) => {
    const given = await prepared({ template: await bench.template(parts) });
    const result = await execute(given);
    expect(result).toMatchObject({
      outcome: { kind: 'failed', failure: { code: 'template_error', message: expect.stringContaining(`template ${given.template}`) } },
    });
    expect(await messagesOf(given.runId)).toEqual([]);
  });
});

describe('the configuration', () => {
  it.each([[{}], [{ template: '' }], [{ template: 'x', to: 'a@example.test' }]])('%j is refused when the workflow is published', (config) => {
    expect(action.config.safeParse(config).success).toBe(false);
  });
});
