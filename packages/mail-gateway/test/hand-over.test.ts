import { type PreparedMessage, preparedMessageSchema } from '@onward/contracts/mail';
import { afterEach, describe, expect, test } from 'vitest';
import { handOver } from '../src/hand-over.js';
import { openSmtpTransport } from '../src/smtp-transport.js';
import { messageOf } from './message.js';
import { type Misbehaviour, type RawSmtpServer, type Stage, startRawSmtpServer } from './raw-smtp-server.js';

const ends: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function serve(script: RawSmtpServer['script'] = {}, options: { offers?: readonly string[] } = {}): Promise<RawSmtpServer> {
  const server = await startRawSmtpServer(options);
  server.script = script;
  ends.push(server.close);
  return server;
}

function transportTo(url: string) {
  const transport = openSmtpTransport(url, { connections: 2 });
  ends.push(() => transport.close({ force: true }));
  return transport;
}

/** The verdict in one word: `sent`, or the code of the failure. */
async function verdictOf(url: string, { message = messageOf(), ...limits }: { message?: PreparedMessage; signal?: AbortSignal; deadlineMs?: number } = {}) {
  const result = await handOver(transportTo(url), message, limits);
  return result.kind === 'sent' ? 'sent' : result.failure.code;
}

/** Header lines of a raw message, folded ones joined. */
function headersOf(message: string | undefined): Map<string, string> {
  const head = (message ?? '').split('\r\n\r\n')[0] ?? '';
  const lines = head.replace(/\r\n[ \t]+/g, ' ').split('\r\n');
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]));
}

describe('a message', () => {
  test('that the server takes is sent to its one recipient under its fixed Message-ID', async () => {
    const server = await serve();
    const result = await handOver(
      transportTo(server.url),
      messageOf({ replyTo: { name: 'Desk', address: 'desk@onward.example.test' }, html: '<p>Good morning.</p>' }),
    );
    expect(result).toMatchObject({ kind: 'sent', response: '250 2.0.0 queued as 7F3A' });
    expect(server.commands.filter((line) => /^(MAIL|RCPT)/.test(line))).toEqual(['MAIL FROM:<news@onward.example.test>', 'RCPT TO:<ada@example.test>']);
    const headers = headersOf(server.messages[0]);
    expect([...headers.keys()].sort()).toEqual(['content-type', 'date', 'from', 'message-id', 'mime-version', 'reply-to', 'subject', 'to']);
    expect(headers.get('message-id')).toBe('<0190c0de.1@onward.example.test>');
    expect(headers.get('from')).toBe('Onward <news@onward.example.test>');
    expect(headers.get('to')).toBe('Ada <ada@example.test>');
    expect(headers.get('reply-to')).toBe('Desk <desk@onward.example.test>');
  });

  test('with lines that look like the end of the data and like commands stays one message', async () => {
    const server = await serve();
    const text = 'one\r\n.\r\nMAIL FROM:<x@evil.example.test>\r\n\r.\r\n..\n.\nlast';
    expect(await verdictOf(server.url, { message: messageOf({ text }) })).toBe('sent');
    expect(server.messages).toHaveLength(1);
    expect(server.messages[0]).toContain('last');
    expect(server.commands.filter((line) => line.startsWith('MAIL'))).toHaveLength(1);
  });

  test('goes to the ASCII form of a domain written in other letters', async () => {
    const server = await serve();
    expect(await verdictOf(server.url, { message: messageOf({ to: { name: '', address: 'ada@bücher.example.test' } }) })).toBe('sent');
    expect(server.commands).toContain('RCPT TO:<ada@xn--bcher-kva.example.test>');
  });
});

describe('a reply of the server decides', () => {
  test.each<[Stage, string, string]>([
    ['greeting', '421 too busy', 'smtp_retryable'],
    ['greeting', '554 not here', 'smtp_retryable'],
    ['mail', '451 try later', 'smtp_retryable'],
    ['mail', '550 sender refused', 'smtp_permanent'],
    ['rcpt', '451 4.7.1 greylisted', 'smtp_retryable'],
    ['rcpt', '550 5.1.1 no such user', 'smtp_permanent'],
    ['data', '452 no room', 'smtp_retryable'],
    ['data', '554 no valid recipients', 'smtp_permanent'],
    ['end', '451 4.3.0 try later', 'smtp_retryable'],
    ['end', '421 4.3.2 closing', 'smtp_retryable'],
    ['end', '552 5.3.4 too big', 'smtp_permanent'],
    ['end', '554 5.7.1 spam', 'smtp_permanent'],
  ])('at %s: %s', async (stage, reply, code) => {
    for (const pipelining of [false, true]) {
      const server = await serve({ [stage]: { reply } }, { offers: pipelining ? ['PIPELINING'] : [] });
      const result = await handOver(transportTo(server.url), messageOf());
      expect(result).toMatchObject({ kind: 'failed', failure: { code, message: expect.stringContaining(reply) } });
    }
  });
});

describe('without a reply it depends on whether the message had begun to leave', () => {
  const before: Stage[] = ['greeting', 'ehlo', 'mail', 'rcpt', 'data'];
  const after: Stage[] = ['body', 'end'];
  const cases = [...before.map((stage) => [stage, 'smtp_retryable'] as const), ...after.map((stage) => [stage, 'mail_uncertain'] as const)];

  test.each(cases)('a connection cut at %s is %s', async (stage, code) => {
    for (const pipelining of [false, true]) {
      const server = await serve({ [stage]: 'cut' }, { offers: pipelining ? ['PIPELINING'] : [] });
      expect(await verdictOf(server.url)).toBe(code);
    }
  });

  test.each(cases)('a deadline passed at %s is %s', async (stage, code) => {
    for (const pipelining of [false, true]) {
      const server = await serve({ [stage]: 'silent' }, { offers: pipelining ? ['PIPELINING'] : [] });
      expect(await verdictOf(server.url, { deadlineMs: 300 })).toBe(code);
    }
  });

  test.each(cases)('a stop signal at %s is %s', async (stage, code) => {
    const server = await serve({ [stage]: 'silent' });
    const reached = server.reached(stage);
    const stop = new AbortController();
    const verdict = verdictOf(server.url, { signal: stop.signal });
    await reached;
    stop.abort();
    expect(await verdict).toBe(code);
  });

  test('a reply that broke off before its end does not count as one', async () => {
    const server = await serve({ end: { part: '250 2.0.0 que' } });
    expect(await verdictOf(server.url)).toBe('mail_uncertain');
  });

  test('a server that refuses the connection, or has no name, is smtp_retryable', async () => {
    const gone = await startRawSmtpServer();
    await gone.close();
    expect(await verdictOf(gone.url)).toBe('smtp_retryable');
    expect(await verdictOf('smtp://nowhere.invalid:25', { deadlineMs: 10_000 })).toBe('smtp_retryable');
  });

  test('a signal that was aborted before dials nothing', async () => {
    const server = await serve();
    expect(await verdictOf(server.url, { signal: AbortSignal.abort() })).toBe('smtp_retryable');
    expect(server.connections).toBe(0);
  });

  test('the words of an uncertain result say why', async () => {
    const server = await serve({ end: 'silent' });
    const result = await handOver(transportTo(server.url), messageOf(), { deadlineMs: 300 });
    expect(result).toMatchObject({ kind: 'uncertain', failure: { message: expect.stringContaining('300 ms') } });
  });
});

/** What a fault at each place of the exchange means, one line each: nothing is missing between the first dial and the last reply. */
describe('the whole exchange', () => {
  type Class = 'retryable' | 'permanent' | 'uncertain' | 'sent';
  const KINDS = { smtp_retryable: 'retryable', smtp_permanent: 'permanent', mail_uncertain: 'uncertain', sent: 'sent' } as Record<string, Class>;
  const AUTH = { offers: ['AUTH PLAIN LOGIN'], login: 'user:password@' };
  const TLS = { offers: ['STARTTLS'], query: '?requireTLS=true' };
  const silent = ['silent'] as const;

  test.each<[Stage, Misbehaviour, Class, { offers?: readonly string[]; login?: string; query?: string }?]>([
    ['greeting', { reply: '421 4.3.2 too busy' }, 'retryable'],
    ['greeting', { reply: '554 5.3.2 no service here' }, 'retryable'],
    ['greeting', { reply: 'hello' }, 'retryable'],
    ['greeting', 'cut', 'retryable'],
    ['greeting', ...silent, 'retryable'],
    ['helo', { reply: '502 5.5.1 not today' }, 'retryable'],
    ['helo', { reply: '421 closing' }, 'retryable'],
    ['helo', 'cut', 'retryable'],
    ['ehlo', 'cut', 'retryable'],
    ['ehlo', ...silent, 'retryable'],
    ['starttls', { reply: '454 4.7.0 TLS not available' }, 'retryable', TLS],
    ['starttls', { reply: '502 5.5.1 no' }, 'retryable', TLS],
    ['starttls', { reply: '220 go ahead\r\nthis is no handshake' }, 'retryable', TLS],
    ['starttls', 'cut', 'retryable', TLS],
    ['starttls', ...silent, 'retryable', TLS],
    ['auth', { reply: '535 5.7.8 wrong' }, 'retryable', AUTH],
    ['auth', { reply: '454 4.7.0 try later' }, 'retryable', AUTH],
    ['auth', 'cut', 'retryable', AUTH],
    ['auth', ...silent, 'retryable', AUTH],
    ['mail', { reply: '451 4.3.0 try later' }, 'retryable'],
    ['mail', { reply: '421 4.3.2 closing' }, 'retryable'],
    ['mail', { reply: '550 5.7.1 sender refused' }, 'permanent'],
    ['mail', { reply: 'what' }, 'retryable'],
    ['mail', 'cut', 'retryable'],
    ['mail', ...silent, 'retryable'],
    ['rcpt', { reply: '450 4.2.0 mailbox busy' }, 'retryable'],
    ['rcpt', { reply: '550 5.1.1 no such user' }, 'permanent'],
    ['rcpt', { reply: '553 5.1.3 bad address' }, 'permanent'],
    ['rcpt', { reply: 'what' }, 'retryable'],
    ['rcpt', 'cut', 'retryable'],
    ['rcpt', ...silent, 'retryable'],
    ['data', { reply: '451 4.3.0 try later' }, 'retryable'],
    ['data', { reply: '554 5.5.1 no valid recipients' }, 'permanent'],
    ['data', { reply: 'what' }, 'retryable'],
    ['data', 'cut', 'retryable'],
    ['data', ...silent, 'retryable'],
    ['body', 'cut', 'uncertain'],
    ['body', ...silent, 'uncertain'],
    ['end', { reply: '250 2.0.0 queued' }, 'sent'],
    ['end', { reply: '451 4.3.0 try later' }, 'retryable'],
    ['end', { reply: '452 4.3.1 no room' }, 'retryable'],
    ['end', { reply: '550 5.7.1 spam' }, 'permanent'],
    ['end', { reply: '552 5.3.4 too big' }, 'permanent'],
    ['end', { reply: 'hello' }, 'uncertain'],
    ['end', { reply: '999 hello' }, 'uncertain'],
    ['end', { reply: '354 go ahead' }, 'uncertain'],
    ['end', { part: '250 2.0.0 que' }, 'uncertain'],
    ['end', 'cut', 'uncertain'],
    ['end', ...silent, 'uncertain'],
  ])('at %s: %j is %s', async (stage, misbehaviour, expected, { offers = [], login = '', query = '' } = {}) => {
    for (const more of [[], ['PIPELINING']]) {
      // HELO is tried only when EHLO is not known.
      const before = stage === 'helo' ? { ehlo: { reply: '500 5.5.1 what' } } : {};
      const server = await serve({ ...before, [stage]: misbehaviour }, { offers: [...offers, ...more] });
      const url = `smtp://${login}127.0.0.1:${server.port}/${query}`;
      const verdict = await verdictOf(url, misbehaviour === 'silent' ? { deadlineMs: 300 } : {});
      expect(KINDS[verdict] ?? verdict).toBe(expected);
    }
  });
});

describe('a pooled connection', () => {
  test('is used again, and replaced when it died meanwhile', async () => {
    const server = await serve();
    const transport = transportTo(server.url);
    for (let n = 0; n < 2; n++) expect(await handOver(transport, messageOf())).toMatchObject({ kind: 'sent' });
    expect(server.connections).toBe(1);
    server.cutAll();
    expect(await handOver(transport, messageOf())).toMatchObject({ kind: 'sent' });
    expect(server.messages).toHaveLength(3);
  });

  test('that dies before DATA of its second message costs no attempt and sends once', async () => {
    const server = await serve();
    const transport = transportTo(server.url);
    await handOver(transport, messageOf());
    server.script = { mail: 'cut' };
    const reached = server.reached('mail');
    const second = handOver(transport, messageOf());
    await reached;
    server.script = {};
    expect(await second).toMatchObject({ kind: 'sent' });
    expect(server.messages).toHaveLength(2);
  });

  test('that dies after DATA of its second message is uncertain and sends nothing again', async () => {
    const server = await serve();
    const transport = transportTo(server.url);
    await handOver(transport, messageOf());
    server.script = { end: 'cut' };
    expect(await handOver(transport, messageOf())).toMatchObject({ kind: 'uncertain' });
    expect(server.messages).toHaveLength(2);
  });

  test('serves others after a message was refused or cut short', async () => {
    const server = await serve({ rcpt: { reply: '550 no' } });
    const transport = transportTo(server.url);
    expect(await handOver(transport, messageOf())).toMatchObject({ kind: 'failed' });
    server.script = { end: 'silent' };
    expect(await handOver(transport, messageOf(), { deadlineMs: 300 })).toMatchObject({ kind: 'uncertain' });
    server.script = {};
    expect(await handOver(transport, messageOf())).toMatchObject({ kind: 'sent' });
  });
});

describe('F46: header injection', () => {
  const EVIL = 'A\r\nBcc: x@evil.example.test';

  test.each<[string, Partial<PreparedMessage>]>([
    ['the name of the recipient', { to: { name: EVIL, address: 'ada@example.test' } }],
    ['the name of the sender', { from: { name: EVIL, address: 'news@onward.example.test' } }],
    ['the name for replies', { replyTo: { name: EVIL, address: 'desk@onward.example.test' } }],
    ['the subject', { subject: 'Hi\nX-Evil: 1' }],
    ['the subject with a bare return', { subject: 'Hi\rX-Evil: 1\r\n\r\nbody' }],
    ['the subject with other line ends', { subject: 'Hi\u2028X-Evil: 1\u0000\u0085X-Evil: 2' }],
    ['the Message-ID', { messageIdHeader: '<a@b>\r\nX-Evil: 1' }],
    ['a name that holds an address', { to: { name: 'x@evil.example.test>, <y@evil.example.test', address: 'ada@example.test' } }],
  ])('in %s adds neither a recipient nor a header', async (_where, over) => {
    const server = await serve();
    expect(await verdictOf(server.url, { message: messageOf(over) })).toBe('sent');
    expect(server.commands.filter((line) => line.startsWith('RCPT'))).toEqual(['RCPT TO:<ada@example.test>']);
    const [head] = (server.messages[0] ?? '').split('\r\n\r\n');
    const names = (head ?? '')
      .split('\r\n')
      .filter((line) => !/^[ \t]/.test(line))
      .map((line) => line.slice(0, line.indexOf(':')).toLowerCase());
    const expected = ['content-transfer-encoding', 'content-type', 'date', 'from', 'message-id', 'mime-version', 'subject', 'to'];
    expect(names.sort()).toEqual(over.replyTo ? [...expected, 'reply-to'].sort() : expected);
    expect(head).not.toMatch(/[^\r]\n|\r[^\n]|[\u0000\u0085]/);
  });

  test.each([
    ['a command behind the address', 'a@example.test\r\nRCPT TO:<x@evil.example.test>'],
    ['two addresses', 'a@example.test, x@evil.example.test'],
    ['a group', 'all: a@example.test, x@evil.example.test;'],
    ['an address in brackets', '<a@example.test>'],
    ['a quoted local part', '"a, x@evil.example.test"@example.test'],
    ['a second at sign', 'a@x@example.test'],
    ['a blank', 'a b@example.test'],
    ['a NUL', 'a\u0000@example.test'],
    ['other white space', 'a@exam\u2028ple.test'],
    ['a comment', 'a(comment)@example.test'],
    ['no domain', 'a@'],
    ['no local part', '@example.test'],
    ['nothing', ''],
    ['an address literal', 'a@[127.0.0.1]'],
    ['an address in disguise', 'a@127.1'],
    ['an address in another base', 'a@0x7f000001'],
    ['a percent sign in the domain', 'a@ex%61mple.test'],
    ['a soft hyphen in the domain', 'a@exam\u00adple.test'],
    ['a label that starts with a hyphen', 'a@-example.test'],
    ['an empty label', 'a@example..test'],
    ['a local part in other letters', 'äda@example.test'],
    ['a local part that is too long', `${'a'.repeat(65)}@example.test`],
    ['an address that is too long', `a@${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.${'e'.repeat(60)}.${'f'.repeat(20)}`],
  ])('with %s is refused before anything is dialled', async (_what, address) => {
    const server = await serve();
    const box = { name: '', address };
    expect(await verdictOf(server.url, { message: messageOf({ to: box }) })).toBe('address_invalid');
    // The other two are ours: the contact's address is not to blame.
    for (const over of [{ from: box }, { replyTo: box }]) expect(await verdictOf(server.url, { message: messageOf(over) })).toBe('config_invalid');
    expect(server.connections).toBe(0);
  });
});

describe('no file and no address is read into a message', () => {
  test('by the shape of a prepared message', () => {
    expect(preparedMessageSchema.safeParse(messageOf({ html: '<p>hi</p>' })).success).toBe(true);
    expect(preparedMessageSchema.safeParse({ ...messageOf(), html: { path: '/etc/hostname' } }).success).toBe(false);
    expect(preparedMessageSchema.safeParse({ ...messageOf(), raw: 'From: x' }).success).toBe(false);
  });

  test('by the transport, whatever it is handed', async () => {
    const server = await serve();
    const envelope = { from: 'a@example.test', to: 'b@example.test' };
    for (const content of [{ path: '/etc/hostname' }, { href: server.url.replace('smtp', 'http') }]) {
      await expect(transportTo(server.url).sendMail({ envelope, html: content })).rejects.toThrow(/access rejected/i);
    }
    expect(server.messages).toEqual([]);
  });
});
