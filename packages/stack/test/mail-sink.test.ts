import { appendFileSync, readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import { type MailSink, type MailSinkOptions, startMailSink } from '../src/mail-sink.js';
import { sendMail, speakSmtp } from './speak-smtp.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();
const started: MailSink[] = [];
afterEach(async () => {
  for (const sink of started.splice(0)) await sink.stop();
});

async function start(options: MailSinkOptions = {}): Promise<MailSink> {
  const sink = await startMailSink(options);
  started.push(sink);
  return sink;
}

describe('the mail sink', () => {
  test('records every byte of a message and its envelope', async () => {
    const sink = await start();
    const client = await speakSmtp(sink.smtpUrl);
    const sent = 'Subject: =?utf-8?q?Zo=C3=AB?=\r\nX-Odd:\ttab \r\n\r\n..a dot\r\nbare\nfeed and \u0000 and é\r\n';
    expect(await sendMail(client, ['ann@example.test', 'bob@example.test'], sent)).toMatch(/^250 recorded as/);
    const [message] = sink.messages();
    expect(message?.raw.toString('utf8')).toBe(sent.replace('..a dot', '.a dot'));
    expect(message).toMatchObject({ from: 'onward@example.test', to: ['ann@example.test', 'bob@example.test'], answer: 'accepted' });
    expect((await message?.parse())?.subject).toBe('Zoë');
  });

  test('takes many messages over one connection', async () => {
    const sink = await start();
    const client = await speakSmtp(sink.smtpUrl);
    for (const nth of [1, 2, 3]) await sendMail(client, ['ann@example.test'], `Subject: ${nth}\r\n\r\n`);
    const arrived = await sink.waitFor((messages) => messages.length === 3);
    expect(arrived.map(({ raw }) => raw.toString())).toEqual([1, 2, 3].map((nth) => `Subject: ${nth}\r\n\r\n`));
  });

  test('refuses one recipient for good and another for now, and takes the rest', async () => {
    const sink = await start();
    sink.mode(({ stage, to }) => {
      if (stage === 'data') return { kind: 'accept' };
      if (to.at(-1) === 'gone@example.test') return { kind: 'refuse_recipient', code: 550 };
      return to.at(-1) === 'full@example.test' ? { kind: 'refuse_recipient', code: 451 } : { kind: 'accept' };
    });
    const client = await speakSmtp(sink.smtpUrl);
    await client.say('MAIL FROM:<onward@example.test>');
    expect(await client.say('RCPT TO:<gone@example.test>')).toMatch(/^550 /);
    expect(await client.say('RCPT TO:<full@example.test>')).toMatch(/^451 /);
    expect(await client.say('RCPT TO:<ann@example.test>')).toMatch(/^250 /);
    await client.say('DATA');
    expect(await client.say('Subject: x\r\n\r\n.')).toMatch(/^250 /);
    expect(sink.messages()[0]?.to).toEqual(['ann@example.test']);
    expect(sink.refusedRecipients().map(({ address, code }) => [address, code])).toEqual([
      ['gone@example.test', 550],
      ['full@example.test', 451],
    ]);
  });

  test('refuses a whole message after its last byte', async () => {
    const sink = await start();
    sink.mode({ kind: 'refuse_data', code: 554 });
    expect(await sendMail(await speakSmtp(sink.smtpUrl), ['ann@example.test'], 'Subject: x\r\n\r\n')).toMatch(/^554 /);
    expect(sink.messages()[0]?.answer).toBe('refused');
  });

  test('cuts the connection after the last byte and before 250, with the message recorded', async () => {
    const sink = await start();
    sink.mode(({ nth }) => (nth === 2 ? { kind: 'drop' } : { kind: 'accept' }));
    const client = await speakSmtp(sink.smtpUrl);
    expect(await sendMail(client, ['ann@example.test'], 'Subject: 1\r\n\r\n')).toMatch(/^250 /);
    expect(await sendMail(client, ['ann@example.test'], 'Subject: 2\r\n\r\n')).toBeUndefined();
    expect(await sendMail(await speakSmtp(sink.smtpUrl), ['ann@example.test'], 'Subject: 3\r\n\r\n')).toMatch(/^250 /);
    expect(sink.messages().map(({ answer }) => answer)).toEqual(['accepted', 'dropped', 'accepted']);
  });

  test('holds its answer until it is released, and knows when nobody waits for it any more', async () => {
    const sink = await start();
    sink.mode({ kind: 'hold' });
    const [patient, impatient] = [await speakSmtp(sink.smtpUrl), await speakSmtp(sink.smtpUrl)];
    const answer = sendMail(patient, ['ann@example.test'], 'Subject: patient\r\n\r\n');
    void sendMail(impatient, ['bob@example.test'], 'Subject: impatient\r\n\r\n');
    await sink.waitFor((messages) => messages.length === 2);
    expect(sink.messages().map(({ answer }) => answer)).toEqual(['pending', 'pending']);
    const isGone = new Promise((resolve) => impatient.socket.once('close', resolve));
    impatient.socket.destroy();
    await isGone;
    await fetch(`${sink.inboxUrl}/messages.json`); // a round trip after which the sink has seen the close as well
    sink.release();
    expect(await answer).toMatch(/^250 /);
    await sink.waitFor((messages) => messages.every(({ answer }) => answer !== 'pending'));
    expect(Object.fromEntries(sink.messages().map(({ to, answer }) => [to[0], answer]))).toEqual({
      'ann@example.test': 'accepted',
      'bob@example.test': 'dropped',
    });
  });

  test('answers late when told so over HTTP', async () => {
    const sink = await start();
    const told = await fetch(`${sink.inboxUrl}/_mode`, { method: 'POST', body: JSON.stringify({ kind: 'late', delayMs: 150 }) });
    expect(told.status).toBe(200);
    const before = performance.now();
    expect(await sendMail(await speakSmtp(sink.smtpUrl), ['ann@example.test'], 'Subject: x\r\n\r\n')).toMatch(/^250 /);
    expect(performance.now() - before).toBeGreaterThan(145);
    expect((await fetch(`${sink.inboxUrl}/_mode`, { method: 'POST', body: '{"kind":"refuse_data","code":200}' })).status).toBe(400);
  });

  test('keeps its mail in a file over a restart, but for a line that a crash cut', async () => {
    const storeFile = join(folder, 'mail.ndjson');
    const first = await start({ storeFile });
    await sendMail(await speakSmtp(first.smtpUrl), ['ann@example.test'], 'Subject: kept\r\n\r\n');
    await first.stop();
    expect(statSync(storeFile).mode & 0o777).toBe(0o600);
    appendFileSync(storeFile, '{"id":"cut sho');
    const second = await start({ storeFile });
    await sendMail(await speakSmtp(second.smtpUrl), ['bob@example.test'], 'Subject: second\r\n\r\n');
    await second.stop();
    const third = await start({ storeFile });
    expect(third.messages().map(({ raw }) => raw.toString())).toEqual(['Subject: kept\r\n\r\n', 'Subject: second\r\n\r\n']);
    third.clear();
    expect((await start({ storeFile })).messages()).toEqual([]);
  });

  test('tells a test that waits in vain how much has arrived', async () => {
    const sink = await start();
    await sendMail(await speakSmtp(sink.smtpUrl), ['ann@example.test'], 'Subject: x\r\n\r\n');
    await expect(sink.waitFor((messages) => messages.length === 2, 50)).rejects.toThrow('still waiting after 50 ms; 1 messages so far');
  });
});

describe('the inbox page', () => {
  const HOSTILE = '</pre></iframe>"><script>alert(1)</script>';

  async function withHostileMail(): Promise<{ sink: MailSink; listed: string; shown: string }> {
    const sink = await start();
    const body = `Subject: ${HOSTILE}\r\nFrom: "${HOSTILE}" <x@example.test>\r\nContent-Type: text/html\r\n\r\n<p>It's here</p>${HOSTILE}\r\n`;
    await sendMail(await speakSmtp(sink.smtpUrl), ['ann@example.test'], body);
    const listed = await (await fetch(sink.inboxUrl)).text();
    const shown = await (await fetch(`${sink.inboxUrl}/message/${sink.messages()[0]?.id}`)).text();
    return { sink, listed, shown };
  }

  test('shows what anybody may have written without letting any of it become markup', async () => {
    const { listed, shown } = await withHostileMail();
    for (const page of [listed, shown]) {
      expect(page).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
      expect(page.toLowerCase()).not.toContain('<script');
    }
    expect(shown).toContain('sandbox="allow-popups allow-popups-to-escape-sandbox" srcdoc="&lt;!doctype html&gt;');
    expect(shown.match(/<iframe/g)).toHaveLength(1);
  });

  test('allows no script and loads nothing from the world', async () => {
    const { sink } = await withHostileMail();
    const policy = (await fetch(sink.inboxUrl)).headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain('script-src');
    expect(policy).toContain('img-src data: http://127.0.0.1:* http://localhost:*;');
    const raw = await fetch(`${sink.inboxUrl}/message/${sink.messages()[0]?.id}/raw`);
    expect(raw.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(raw.headers.get('x-content-type-options')).toBe('nosniff');
    expect(Buffer.from(await raw.arrayBuffer())).toEqual(sink.messages()[0]?.raw);
  });

  test('answers to no other host name, and changes nothing for another site', async () => {
    const { sink } = await withHostileMail();
    const ask = (method: string, path: string, headers: Record<string, string>): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const sent = request(
          `${sink.inboxUrl}${path}`,
          { method, headers },
          (response) => void text(response).then(() => resolve(response.statusCode), reject),
        );
        sent.once('error', reject).end();
      });
    expect(await ask('GET', '/', { host: 'inbox.evil.test' })).toBe(403);
    expect(await ask('GET', '/messages.json', { host: '127.0.0.1.evil.test:80' })).toBe(403);
    expect(await ask('POST', '/_clear', { origin: 'http://evil.test' })).toBe(403);
    expect(await ask('POST', '/_clear', { 'sec-fetch-site': 'cross-site' })).toBe(403);
    expect(sink.messages()).toHaveLength(1);
    expect(await ask('POST', '/_clear', { origin: sink.inboxUrl, 'sec-fetch-site': 'same-origin' })).toBe(303);
    expect(sink.messages()).toHaveLength(0);
    expect(await ask('GET', '/message/none', {})).toBe(404);
  });

  test('tells of a message that is not there on a page with the way back, and asks twice before it forgets', async () => {
    const { sink, listed } = await withHostileMail();
    const missing = await fetch(`${sink.inboxUrl}/message/none`);
    expect([missing.status, missing.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
    expect(await missing.text()).toContain('<a href="/">To the inbox</a>');
    expect(listed).toContain('<a href="/" aria-current="page">Inbox</a>');
    expect(listed).toMatch(/<details class="forget"><summary>Forget all mail …<\/summary>\s*<form method="post" action="\/_clear">/);
  });

  test('gives programs the messages as JSON', async () => {
    const { sink } = await withHostileMail();
    expect(await (await fetch(`${sink.inboxUrl}/messages.json`)).json()).toMatchObject([{ subject: HOSTILE, to: ['ann@example.test'], answer: 'accepted' }]);
  });
});

test('the store file holds one line a message', async () => {
  const storeFile = join(folder, 'lines.ndjson');
  const sink = await start({ storeFile });
  for (const nth of [1, 2]) await sendMail(await speakSmtp(sink.smtpUrl), ['ann@example.test'], `Subject: ${nth}\r\n\r\nline\r\nline\r\n`);
  expect(readFileSync(storeFile, 'utf8').trim().split('\n')).toHaveLength(2);
});
