import type { SinkMessage } from '@onward/stack/mail-sink';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { line, mailTo, onEvent, publish, tag, wait } from '../src/journeys.js';

/** Cases from the field about mail, end to end: from the event to the bytes that a mail server got. */

let onward: Installation;
let templateId: string;
beforeAll(async () => {
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/15`,
  });
  const subject = 'Hi {{contact.attributes.name}} – {{event.title}}';
  const made = { name: 'titled', subject, html: '<p>{{contact.attributes.name}}</p>', text: '{{contact.attributes.name}}' };
  templateId = String((await onward.api.must('POST', '/templates', made))['id']);
  await onward.api.must('POST', '/templates', { ...made, name: 'receipt', isTransactional: true });
  await publish(onward.api, 'mails', line(onEvent('mailed'), mailTo('greet', 'titled'), tag('close', 'closed')), { reentry: 'always' });
});
afterAll(() => onward?.close());

type Run = { state: string; history: { node: string; status: string; mark: string | null; failure: { code: string } | null }[] };
type Contact = { externalId: string; email: string; attributes?: Record<string, unknown> };

const contactOf = (who: string, attributes: Record<string, unknown> = {}): Contact => ({ externalId: who, email: `${who}@example.test`, attributes });
async function start(event: string, id: string, contact: Contact, payload: Record<string, unknown> = {}): Promise<{ runId: string; contactId: string }> {
  const answer = (await onward.api.must('POST', '/events', { id, type: event, contact, payload })) as { runs: { runId: string }[]; contactId: string };
  return { runId: String(answer.runs[0]?.runId), contactId: answer.contactId };
}
const read = async (id: string) => (await onward.api.must('GET', `/runs/${id}`)) as unknown as Run;
const until = (id: string, state: string) => onward.until(`run ${id} is ${state}`, async () => (await read(id)).state === state);
const mailsTo = (who: string) => onward.mail.messages().filter(({ to }) => to.includes(`${who}@example.test`));
const headersOf = (message: SinkMessage | undefined) =>
  (message?.raw.toString('latin1').split('\r\n\r\n')[0] ?? '').split(/\r\n(?![ \t])/).map((header) => header.split(':')[0]?.toLowerCase());

const TITLE = 'R&D "night" 🎉';
const NAMES = [
  { what: 'absent', attributes: {}, shown: '', html: '' },
  { what: 'null', attributes: { name: null }, shown: '', html: '' },
  { what: 'empty', attributes: { name: '' }, shown: '', html: '' },
  { what: 'zero', attributes: { name: 0 }, shown: '0', html: '0' },
  { what: 'markup', attributes: { name: "O'Neill & <b>Co</b>" }, shown: "O'Neill & <b>Co</b>", html: 'O&#39;Neill &amp; &lt;b&gt;Co&lt;/b&gt;' },
  { what: 'object', attributes: { name: { a: 1 } }, shown: '{"a":1}', html: '{&#34;a&#34;:1}' },
  { what: 'list', attributes: { name: ['x', 'y'] }, shown: 'x, y', html: 'x, y' },
];

for (const { what, attributes, shown, html } of NAMES) {
  test(`F45: a name that is ${what} arrives literally in subject and text, and escaped in HTML, as the preview showed it`, async () => {
    const who = `f45-${what}`;
    const { runId, contactId } = await start('mailed', who, contactOf(who, attributes), { title: TITLE });
    await until(runId, 'succeeded');
    expect(mailsTo(who)).toHaveLength(1);
    const got = await mailsTo(who)[0]?.parse();
    expect(got?.subject).toBe(`Hi ${shown} – ${TITLE}`);
    expect((got?.text ?? '').trimEnd()).toBe(shown);
    expect((got?.html || '').trimEnd()).toBe(`<p>${html}</p>`);
    const preview = await onward.api.must('POST', `/templates/${templateId}/preview`, { contactId, event: { title: TITLE } });
    expect(preview).toMatchObject({ subject: got?.subject, html: `<p>${html}</p>`, text: shown });
  });
}

test('F46: line breaks in what a subject is filled with make no header and no recipient', async () => {
  const plain = await start('mailed', 'f46-plain', contactOf('f46-plain', { name: 'A' }), { title: 'Hi' });
  const evil = contactOf('f46-evil', { name: 'A\r\nBcc: x@evil.example.test' });
  const attack = await start('mailed', 'f46-evil', evil, { title: 'Hi\nX-Evil: 1' });
  for (const { runId } of [plain, attack]) await until(runId, 'succeeded');
  const [message, ...more] = mailsTo('f46-evil');
  expect(more).toEqual([]);
  expect(message?.to).toEqual(['f46-evil@example.test']);
  expect(headersOf(message)).toEqual(headersOf(mailsTo('f46-plain')[0]));
  expect(headersOf(message)).toEqual(expect.arrayContaining(['from', 'to', 'subject', 'message-id']));
  // As it was prepared already, and not only as the last hand made it safe.
  const subject = 'Hi A Bcc: x@evil.example.test – Hi X-Evil: 1';
  expect(await onward.api.must('GET', `/runs/${attack.runId}`)).toMatchObject({ messages: [{ subject }] });
  expect((await message?.parse())?.subject).toBe(subject);
  expect(onward.mail.messages().flatMap(({ to }) => to)).not.toContain('x@evil.example.test');
});

test('F46: an address with a line break is refused by the API, and one in the database never gets to SMTP: failed at once, and noted at the contact', async () => {
  const address = 'a@example.test\r\nRCPT TO:<x@evil.example.test>';
  const refused = await onward.api.call('POST', '/events', { id: 'f46-refused', type: 'mailed', contact: { email: address } });
  expect(refused.status).toBe(400);
  const contact = (await onward.api.must('POST', '/contacts', { externalId: 'f46-stored' })) as { id: string };
  await onward.query('UPDATE contacts SET email = lower($2) WHERE id = $1', [contact.id, address]);
  const workflow = await publish(onward.api, 'by hand', line({ type: 'manual' }, mailTo('greet', 'titled')));
  const before = onward.mail.messages().length;
  const started = (await onward.api.must('POST', '/runs', { workflowId: workflow, contacts: [{ id: contact.id }] })) as { results: { runId: string }[] };
  const runId = String(started.results[0]?.runId);
  await until(runId, 'failed');
  const run = await read(runId);
  expect(run.history.filter(({ node }) => node === 'greet')).toMatchObject([{ status: 'failed', failure: { code: 'address_invalid' } }]);
  expect(onward.mail.messages()).toHaveLength(before);
  expect(onward.mail.refusedRecipients()).toEqual([]);
  const [kept] = await onward.query<{ problem: string | null }>('SELECT email_problem AS problem FROM contacts WHERE id = $1', [contact.id]);
  expect(kept?.problem).toEqual(expect.any(String));
});

test('F51: who unsubscribed during a wait, or between queueing and SMTP, is skipped and the run goes on; transactional mail is still sent', async () => {
  const { api, query, processes } = onward;
  const journey = line(
    onEvent('f51'),
    mailTo('first', 'titled'),
    wait('rest', '2d'),
    mailTo('second', 'titled'),
    mailTo('receipt', 'receipt'),
    tag('close', 'f51'),
  );
  await publish(api, 'F51', journey);
  const { runId: during } = await start('f51', 'f51-during', contactOf('f51-during'));
  await onward.until(
    'the first mail is out',
    async () => (await read(during)).history.some(({ node }) => node === 'rest') && mailsTo('f51-during').length === 1,
  );
  await api.must('POST', '/test/clock', { advance: '1d' });
  expect((await api.call('POST', '/suppressions', { email: 'f51-during@example.test', reason: 'unsubscribed' })).status).toBe(201);
  await api.must('POST', '/test/clock', { advance: '25h' });
  await until(during, 'succeeded');
  const skipped = (await read(during)).history.filter(({ node }) => node === 'second');
  expect(skipped).toMatchObject([{ status: 'done', mark: 'skipped', failure: null, output: { skipped: 'unsubscribed' } }]);
  expect(mailsTo('f51-during')).toHaveLength(2);
  expect((await read(during)).history.map(({ node }) => node)).toEqual(['start', 'first', 'rest', 'second', 'receipt', 'close', 'finish']);

  // The gateway stands still while the mail is queued, and finds the contact suppressed when it goes on.
  processes['gateway']?.kill('SIGSTOP');
  const queued = await start('mailed', 'f51-queued', contactOf('f51-queued'), { title: TITLE });
  const stateOf = async (id: string) => (await query<{ state: string }>('SELECT state FROM messages WHERE run_id = $1', [id]))[0]?.state;
  await onward.until('the mail is queued', async () => (await stateOf(queued.runId)) === 'prepared' && (await read(queued.runId)).state === 'waiting');
  expect((await api.call('POST', '/suppressions', { email: 'f51-queued@example.test', reason: 'unsubscribed' })).status).toBe(201);
  processes['gateway']?.kill('SIGCONT');
  await until(queued.runId, 'succeeded');
  expect(await stateOf(queued.runId)).toBe('skipped');
  const { history } = await read(queued.runId);
  expect(history.filter(({ node }) => node === 'greet')).toMatchObject([{ status: 'done', mark: 'skipped', output: { skipped: 'unsubscribed' } }]);
  expect(history.map(({ node }) => node)).toEqual(['start', 'greet', 'close', 'finish']);
  expect(mailsTo('f51-queued')).toEqual([]);
  expect(await checkHistories(onward)).toEqual([]);
});
