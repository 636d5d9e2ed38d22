import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { freePort } from '@onward/stack/free-port';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';

/**
 * F39 on an installation of real processes, with the connection between worker and backend led through a listener: twenty canaries go out as
 * secrets in headers, queries and bodies to targets that refuse, echo, break and hang, and are then looked for in everything that is kept or shown.
 */

const CANARIES = Array.from({ length: 20 }, (_, index) => `s3cr3t-F39-${index}-${randomBytes(7).toString('base64')}+/"&`);
/** Written as a header without a secret: its value comes from the event, whose table may know it, and nothing else. */
const FROM_EVENT = `s3cr3t-F39-event-${randomBytes(9).toString('hex')}`;

const ENCODINGS: Record<string, (value: string) => string> = {
  raw: (value) => value,
  percent: encodeURIComponent,
  json: (value) => JSON.stringify(value).slice(1, -1),
  'json in json': (value) => JSON.stringify(JSON.stringify(value)).slice(3, -3),
  base64: (value) => Buffer.from(value).toString('base64').replace(/.=*$/, ''),
  base64url: (value) => Buffer.from(value).toString('base64url').slice(0, -1),
  hex: (value) => Buffer.from(value).toString('hex'),
};

/** Which canaries stand in the text, and how. Their beginning is looked for too, so that half of one counts. */
function hits(text: string): string[] {
  return CANARIES.flatMap((value, index) => {
    const found = Object.entries(ENCODINGS).flatMap(([name, encode]) => (text.includes(encode(value)) ? [name] : []));
    const beginning = value.slice(0, `s3cr3t-F39-${index}-`.length + 3);
    return [...found, ...(text.includes(beginning) ? ['beginning'] : [])].map((how) => `canary ${index}: ${how}`);
  });
}

/** What every longer run of hex digits stands for. */
function unhexed(text: string): string {
  return (text.match(/[0-9a-f]{8,}/g) ?? []).flatMap((run) => [run, run.slice(1)].map((hex) => Buffer.from(hex, 'hex').toString('latin1'))).join('\n');
}

let onward: Installation;
let target: Server;
let listener: TcpServer;
let origin: string;
let closedOrigin: string;
const wire: Buffer[] = [];
const commands: string[] = [];
let monitor: Redis | undefined;
let valkey: Redis | undefined;
const seen: { path: string; text: string }[] = [];
const attemptsAt = new Map<string, number>();

/** Answers with all it was told, in the way its path asks for. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  const path = request.url ?? '';
  const authorization = request.headers.authorization ?? '';
  const told = JSON.stringify({
    path,
    headers: request.headers,
    body,
    base64: Buffer.from(authorization).toString('base64'),
    hex: Buffer.from(body).toString('hex'),
  });
  seen.push({ path, text: `${path} ${JSON.stringify(request.rawHeaders)} ${body}` });
  const [, how = ''] = /^\/([a-z0-9-]+)/.exec(path) ?? [];
  const nth = (attemptsAt.get(how) ?? 0) + 1;
  attemptsAt.set(how, nth);
  const json = { 'content-type': 'application/json', 'x-request-id': encodeURIComponent(authorization) };
  if (how === 'hang') return;
  if (how === 'text') return void response.writeHead(200, { 'content-type': 'text/plain' }).end(`${path}\n${authorization}\n${body}`);
  if (how === 'redirect') return void response.writeHead(302, { location: `/again?key=${encodeURIComponent(authorization)}` }).end(told);
  if (how === 'cut') return void response.writeHead(200, { ...json, 'content-length': '100000' }).write(told, () => response.destroy());
  const status = how === 'ok' || (how === 'once-500' && nth > 1) ? 200 : how === 'once-500' ? 500 : 401;
  response.writeHead(status, json).end(told);
}

beforeAll(async () => {
  target = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
  target.listen(0, '127.0.0.1');
  await once(target, 'listening');
  const { port } = target.address() as AddressInfo;
  const [closed, rpcPort] = [await freePort(), await freePort()];
  [origin, closedOrigin] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${closed}`];
  listener = createTcpServer((socket) => {
    const through = connect(rpcPort, '127.0.0.1');
    for (const one of [socket, through]) one.on('error', () => undefined).on('data', (bytes: Buffer) => wire.push(bytes));
    socket.pipe(through).pipe(socket);
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const valkeyUrl = `${process.env['ONWARD_TEST_VALKEY_URL']}/13`;
  valkey = new Redis(valkeyUrl);
  monitor = await valkey.duplicate().monitor();
  monitor.on('monitor', (_time: string, args: string[]) => commands.push(args.join(' ')));
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl,
    env: {
      BACKEND_MICROSERVICE_PORT: String(rpcPort),
      BACKEND_MICROSERVICE_TARGET_PORT: String((listener.address() as AddressInfo).port),
      EGRESS_ALLOW: `127.0.0.1:${port},127.0.0.1:${closed}`,
      AUTOMATIONS_NOTIFY_TO: 'operator@example.test',
      LOG_LEVEL: 'trace',
    },
  });
});
afterAll(async () => {
  await onward?.close();
  monitor?.disconnect();
  valkey?.disconnect();
  target?.closeAllConnections();
  target?.close();
  listener?.close();
});

/** A journey's name is the path of its target, but for those whose target is none. */
const JOURNEYS: Record<string, () => { url: string; more?: Record<string, unknown> }> = {
  ok: () => ({ url: `${origin}/ok` }),
  text: () => ({ url: `${origin}/text` }),
  refuse: () => ({ url: `${origin}/refuse` }),
  redirect: () => ({ url: `${origin}/redirect` }),
  'once-500': () => ({ url: `${origin}/once-500` }),
  cut: () => ({ url: `${origin}/cut` }),
  hang: () => ({ url: `${origin}/hang`, more: { timeoutMs: 300 } }),
  closed: () => ({ url: `${closedOrigin}/closed` }),
  tls: () => ({ url: `${origin.replace('http:', 'https:')}/tls`, more: { timeoutMs: 5_000 } }),
};

describe('F39: canaries in every place of a request', () => {
  beforeAll(async () => {
    for (const [index, value] of CANARIES.entries()) {
      const allowedOrigins = [origin, closedOrigin, origin.replace('http:', 'https:')];
      await onward.api.must('POST', '/secrets', { name: `canary_${index}`, value, allowedOrigins });
    }
    const named = CANARIES.map((_, index) => `{{ secrets.canary_${index} }}`);
    for (const [name, journey] of Object.entries(JOURNEYS)) {
      const { url, more } = journey();
      const node = forward('call', url, {
        headers: { Authorization: `Bearer ${named[0]}`, 'X-Api-Key': named[1], Cookie: `sid=${named[2]}`, 'X-Auth-Token': 'Token {{ event.credential }}' },
        query: { key: named[3], all: named },
        body: { all: named, deep: { text: `a ${named[4]} b` } },
        ...more,
      });
      await publish(onward.api, name, line(onEvent(`f39.${name}`), node));
      const payload = { credential: FROM_EVENT, password: 'pass-word-of-the-event' };
      await onward.api.must('POST', '/events', { id: name, type: `f39.${name}`, contact: { email: `${name}@example.test` }, payload });
    }
    await letAllEnd(onward, 100_000);
    await onward.until('the notices are sent', async () => onward.mail.messages().length >= 6);
  }, 200_000);

  test('F39: each target was given the values, and each run ended as it should', async () => {
    for (const [index, value] of CANARIES.entries()) {
      expect(seen.find(({ path }) => path.startsWith('/ok'))?.text, `canary ${index}`).toContain(encodeURIComponent(value).slice(0, 20));
      expect(hits(seen.find(({ path }) => path.startsWith('/ok'))?.text ?? '').length).toBeGreaterThan(20);
    }
    const runs = await onward.query<{ name: string; state: string; code: string | null; attempts: string }>(
      `SELECT event_id AS name, state, (SELECT failure->>'code' FROM attempts WHERE run_id = runs.id AND node = 'call' ORDER BY seq DESC, n DESC LIMIT 1) AS code,
              (SELECT count(*) FROM attempts WHERE run_id = runs.id AND node = 'call') AS attempts FROM runs ORDER BY 1`,
    );
    expect(Object.fromEntries(runs.map(({ name, state, code, attempts }) => [name, [state, code, Number(attempts)]]))).toEqual({
      ok: ['succeeded', null, 1],
      text: ['succeeded', null, 1],
      refuse: ['failed', 'http_permanent', 1],
      redirect: ['failed', 'redirect_refused', 1],
      'once-500': ['succeeded', null, 2],
      cut: ['dead_lettered', 'response_cut', 3],
      hang: ['dead_lettered', 'timeout', 3],
      closed: ['dead_lettered', 'network', 3],
      tls: ['dead_lettered', 'network', 3],
    });
    expect(await checkHistories(onward)).toEqual([]);
  });

  test('F39: no table knows them, and the history shows a mark in their place', async () => {
    const tables = await onward.query<{ name: string }>(`SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`);
    expect(tables.length).toBeGreaterThan(15);
    for (const { name } of tables) {
      const texts = await onward.query<{ text: string }>(`SELECT t::text AS text FROM "${name}" t`);
      const all = texts.map(({ text }) => text).join('\n');
      // A bytea is written in hex, and so is what would stand in it as text.
      expect([...hits(all), ...hits(unhexed(all))], name).toEqual([]);
    }
    const history = await onward.query<{ text: string }>(`SELECT concat(input, output, failure) AS text FROM attempts WHERE node = 'call'`);
    const text = history.map((row) => row.text).join('\n');
    expect(text).toContain('[secret canary_0]');
    expect(text).toContain('[secret header x-auth-token]');
    expect(text).not.toContain(FROM_EVENT);
    const [frozen] = await onward.query<{ text: string }>(`SELECT string_agg(request::text, ',') AS text FROM outbound_requests`);
    expect(frozen?.text).not.toContain(FROM_EVENT);
  });

  test('F39: no answer of the API shows them, and values under names of credentials are masked', async () => {
    const runs = await onward.query<{ id: string }>('SELECT id FROM runs');
    const workflows = await onward.query<{ id: string }>('SELECT id FROM workflows');
    const secrets = await onward.query<{ id: string }>('SELECT id FROM secrets');
    const paths = [
      ...['/runs', '/dead-letters', '/events', '/secrets', '/workflows', '/messages', '/contacts', '/run-refusals', '/templates'],
      ...runs.map(({ id }) => `/runs/${id}`),
      ...workflows.map(({ id }) => `/workflows/${id}`),
      ...secrets.map(({ id }) => `/secrets/${id}`),
      ...Object.keys(JOURNEYS).map((name) => `/events/${name}`),
    ];
    const answers = await Promise.all(paths.map((path) => onward.api.call('GET', path)));
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    const text = answers.map(({ body }) => JSON.stringify(body)).join('\n');
    expect(hits(text)).toEqual([]);
    expect(text).toContain('[secret canary_0]');
    expect(text).not.toContain('pass-word-of-the-event');
    expect(text).toContain('"password":"[masked]"');
  });

  test('F39: no log line, mail, command to Valkey or byte between worker and backend holds them', async () => {
    expect(onward.lines.length).toBeGreaterThan(20);
    expect(onward.lines.filter((row) => row.includes(FROM_EVENT) || row.includes('onws') || row.includes('outbound_requests'))).toEqual([]);
    expect(commands.some((command) => command.includes('automations'))).toBe(true);
    const keys = await (valkey as Redis).keys('*');
    const dumps = await Promise.all(keys.map(async (key) => (await (valkey as Redis).dumpBuffer(key))?.toString('latin1') ?? ''));
    const bytes = Buffer.concat(wire).toString('latin1');
    expect(bytes).toContain('action.execute');
    expect(bytes).toMatch(/onws[0-9a-f]{40}/);
    const mails = JSON.stringify(onward.mail.messages());
    expect(mails).toContain('operator@example.test');
    const places = { logs: onward.lines.join('\n'), commands: commands.join('\n'), keys: keys.join('\n') + dumps.join('\n'), wire: bytes, mails };
    expect(Object.fromEntries(Object.entries(places).map(([name, text]) => [name, hits(text)]))).toEqual({
      logs: [],
      commands: [],
      keys: [],
      wire: [],
      mails: [],
    });
    expect(bytes).not.toContain(FROM_EVENT);
  });
});
