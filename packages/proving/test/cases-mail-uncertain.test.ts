import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { inFirstLives, install, type Installation } from '../src/installation.js';
import { line, mailTo, makeTemplate, onEvent, publish, tag } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';

/** F52: the mail server has the message and the sender does not know. One repeat at most, under the same Message-ID, and the run goes on. */

let onward: Installation;
beforeAll(async () => {
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: process.env['ONWARD_TEST_VALKEY_URL'] ?? '',
    failPoints: { gateway: inFirstLives(1, 'mail.after-smtp:kill9') },
  });
  await makeTemplate(onward.api, 'hello');
  await publish(onward.api, 'mails', line(onEvent('mailed'), mailTo('greet', 'hello'), tag('close', 'closed')), { reentry: 'always' });
});
afterAll(() => onward?.close());

const start = (who: string) =>
  onward.api.must('POST', '/events', { id: who, type: 'mailed', contact: { email: `${who}@example.test`, attributes: { name: who } } });
const mailsTo = (who: string) => onward.mail.messages().filter(({ to }) => to.includes(`${who}@example.test`));
const idsTo = async (who: string) => Promise.all(mailsTo(who).map(async (message) => (await message.parse()).messageId));

async function attemptOf(who: string): Promise<{ status: string; mark: string | null } | undefined> {
  const found = await onward.query<{ status: string; mark: string | null }>(
    `SELECT status, mark FROM attempts JOIN runs ON runs.id = run_id WHERE event_id = $1 AND attempts.node = 'greet'`,
    [who],
  );
  expect(found.length).toBeLessThanOrEqual(1);
  return found[0];
}

async function endsRight(who: string, mails: number): Promise<void> {
  await letAllEnd(onward, 90_000);
  expect(await onward.query('SELECT state FROM runs WHERE event_id = $1', [who])).toEqual([{ state: 'succeeded' }]);
  const ids = await idsTo(who);
  expect(ids).toHaveLength(mails);
  expect(new Set(ids).size).toBe(1);
  expect(await checkHistories(onward)).toEqual([]);
}

test('F52c: a gateway that is killed right after the 250 repeats the message once at most, under its Message-ID', async () => {
  await start('killed');
  await onward.mail.waitFor(() => mailsTo('killed').length === 1, 30_000);
  await endsRight('killed', 2);
  expect(onward.process('gateway').countRestarts()).toBe(1);
  expect(await attemptOf('killed')).toMatchObject({ status: 'done' });
});

test('F52a: a connection that breaks before the 250 is uncertain, repeated once under the same Message-ID, and the run goes on, marked', async () => {
  onward.mail.mode({ kind: 'drop' });
  await start('dropped');
  await onward.mail.waitFor(() => mailsTo('dropped').length === 2, 60_000);
  await endsRight('dropped', 2);
  expect(await attemptOf('dropped')).toMatchObject({ status: 'done', mark: 'uncertain' });
  expect(await onward.query(`SELECT state, try FROM messages WHERE to_mailbox ->> 'address' = 'dropped@example.test'`)).toEqual([
    { state: 'uncertain', try: 2 },
  ]);
  onward.mail.mode({ kind: 'accept' });
});

test('F52b: a 250 that comes when the time is up is too late for the first try and settles no second message', async () => {
  onward.mail.mode(({ to }) => ({ kind: to.includes('late@example.test') && mailsTo('late').length === 0 ? 'hold' : 'accept' }));
  await start('late');
  await onward.mail.waitFor(() => mailsTo('late').length === 1, 30_000);
  // Its time is over: nobody has said what became of it.
  await onward.query(`UPDATE messages SET begun_until = clock_timestamp() WHERE state = 'begun'`);
  await onward.mail.waitFor(() => mailsTo('late').length === 2, 60_000);
  onward.mail.release();
  await endsRight('late', 2);
  expect(await attemptOf('late')).toMatchObject({ status: 'done' });
});
