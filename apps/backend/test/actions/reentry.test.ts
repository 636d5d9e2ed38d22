import type { BackendClient } from '@onward/wire/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ActionCatalogue } from '../../src/actions/action-catalogue.js';
import { rows, type Tx } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandDriver, HandGateway, startTarget, type Target } from '../runtime/hand-driver.js';
import { line, publish } from '../runtime/hand-worker.js';
import { directClient, type OuterWorld, outerWorld } from '../runtime/outer-world.js';

/**
 * What the catalogue says of every action under `reentry`, tried: each action is cut at each statement from its beginning to the commit that
 * records it, and entered again as the next claim does. The end, of everything an action can touch, is that of a run that was never cut.
 */
type Scenario = {
  /** What is written in the node, besides the action's name. */
  with(target: Target): Record<string, unknown>;
  /** How often the action is entered in one life of its step: a retry enters it again. Each entry is cut. */
  entries?: number;
  mailRefusals?: number;
};

const SCENARIOS: Record<string, Scenario> = {
  ADD_TAG: { with: () => ({ tag: '{{ contact.attributes.name }}' }) },
  REMOVE_TAG: { with: () => ({ tag: 'old' }) },
  MOVE_TO_LIST: { with: () => ({ from: 'before', to: 'after' }) },
  UPDATE_CONTACT: { with: () => ({ attributes: { name: 'New {{ contact.attributes.name }}', seen: true, gone: null } }) },
  FORWARD_REQUEST: { with: ({ url }) => ({ url: `${url}/503/{{ run.id }}`, body: { name: '{{ contact.attributes.name }}' } }), entries: 2 },
  SEND_MAIL: { with: () => ({ template: 'hello' }), entries: 2, mailRefusals: 1 },
};

const EVENTS = ['tag.added', 'tag.removed', 'list.joined', 'list.left', 'contact.updated', 'mail.sent', 'run.succeeded'];

/**
 * A statement that throws takes its action with it. A process that dies loses the connection, and all of the transaction is rolled back: its
 * worker, when it lives, sends the frame again until it is answered; when it died too, the next claim enters.
 */
const CUTS = [
  { how: 'it throws', way: 'throws', manner: 'frames' },
  { how: 'the backend dies, and the frame is sent again', way: 'dies', manner: 'frames' },
  { how: 'the backend dies, and the worker with it', way: 'both die', manner: 'alone' },
] as const;
type Crash = { entry: number; statement: number; way: (typeof CUTS)[number]['way'] };
type Watched = { statements: string[][]; crash: Crash | undefined; hasCrashed: boolean; worker: AbortController };

let onward: BackendForTest;
let target: Target;
let world: OuterWorld;
const workflows = new Map<string, string>();
const lists: string[] = [];
/** By run: how often its action was entered, the statements of each entry, and the crash that is planned and whether it came. */
const entries = new Map<string, Watched>();
/** The runs whose action was tried in company. */
const wereTogether = new Set<string>();

beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000', AUTOMATIONS_LEASE_MS: '120000' });
  target = await startTarget();
  world = outerWorld(onward, target);
  await onward.api('POST', '/templates', { name: 'hello', subject: 'Hello {{ contact.attributes.name }}', text: 'Hello' });
  for (const name of ['before', 'after']) lists.push((await onward.api<{ id: string }>('POST', '/lists', { name })).body.id);
  for (const event of EVENTS) {
    const nodes = [
      { id: 'start', type: 'trigger', config: { type: 'event', event } },
      { id: 'finish', type: 'end' },
    ];
    await publish(onward, { nodes, edges: [{ from: 'start', to: 'finish' }] }, { reentry: 'always' }, `hears ${event}`);
  }
  for (const [type, scenario] of Object.entries(SCENARIOS)) {
    const node = { id: 'act', type: 'action', config: { action: type, with: scenario.with(target) } };
    workflows.set(type, await publish(onward, line(node), { reentry: 'always' }, type));
  }
  for (const action of catalogue().all().values()) {
    const execute = action.execute.bind(action);
    action.execute = async (step) => {
      const watched = entries.get(step.runId);
      if (watched) watchStatements(step.tx, watched);
      return execute(step);
    };
    const executeMany = action.executeMany?.bind(action);
    if (!executeMany) continue;
    action.executeMany = async (tx, steps) => {
      // Whose statements they are is known only of a run that is alone in its transaction: what is tried together is thrown out first.
      const runId = steps[0]?.runId ?? '';
      if (steps.length > 1 || !wereTogether.has(runId)) {
        for (const step of steps) wereTogether.add(step.runId);
        throw new Error('One at a time');
      }
      const watched = entries.get(runId);
      if (watched) watchStatements(tx, watched);
      return executeMany(tx, steps);
    };
  }
});
afterAll(async () => {
  target?.close();
  await onward?.close();
});

const catalogue = () => onward.backend.app.get(ActionCatalogue, { strict: false });

test('every action of the catalogue says what a second entry does, and is entered again here', () => {
  expect([...catalogue().all().keys()].sort()).toEqual(Object.keys(SCENARIOS).sort());
  for (const { reentry } of catalogue().all().values()) expect(reentry).toMatch(/\w.*\.$/);
});

for (const [type, { entries: count = 1 }] of Object.entries(SCENARIOS)) {
  for (const { how, way, manner } of CUTS) {
    test.concurrent(`${type} cut at each statement in turn, so that ${how}, ends as if it had not been`, { timeout: 180_000 }, async ({ expect }) => {
      // The first run of a version reads it, which later ones do not.
      await live(type, manner);
      const whole = await live(type, manner);
      expect(whole.state).toMatchObject({ run: { state: 'succeeded' } });
      expect(whole.statements).toHaveLength(count);
      const crashes = whole.statements.flatMap((statements, index) => statements.map((_, at): Crash => ({ entry: index + 1, statement: at + 1, way })));
      expect(whole.statements.map((statements) => statements.at(-1))).toEqual(Array(count).fill('COMMIT'));
      for (const crash of crashes) {
        const what = `entry ${crash.entry}, before statement ${crash.statement}: ${whole.statements[crash.entry - 1]?.[crash.statement - 1]}`;
        const cut = await live(type, manner, crash);
        expect(cut.hasCrashed, what).toBe(true);
        expect(cut.state, what).toEqual(whole.state);
      }
    });
  }
}

/** From the beginning of an entry to its commit, every statement is counted, and the planned one is where it ends. */
function watchStatements(tx: Tx, watched: Watched): void {
  const runner = tx.queryRunner;
  if (!runner) throw new Error('An action is executed outside a transaction');
  const { crash } = watched;
  const own: string[] = [];
  watched.statements.push(own);
  const isPlanned = !watched.hasCrashed && watched.statements.length === crash?.entry;
  const query = runner.query.bind(runner) as (...given: unknown[]) => Promise<unknown>;
  /** Answers what is sent in the place of the statement: one that throws does so in the database, for those behind it are on their way already. */
  const count = async (statement: string): Promise<string | undefined> => {
    own.push(statement.replace(/\s+/g, ' ').slice(0, 80));
    if (isPlanned && crash && own.length === crash.statement && !watched.hasCrashed) {
      watched.hasCrashed = true;
      if (crash.way === 'throws') return statement === 'COMMIT' ? 'ROLLBACK' : 'SELECT 1 / 0';
      if (crash.way === 'both die') watched.worker.abort(new Error('The worker died'));
      const [{ pid }] = (await query('SELECT pg_backend_pid() AS pid')) as [{ pid: number }];
      await rows(onward.source, 'SELECT pg_terminate_backend($1, 5000)', [pid]);
    }
    return undefined;
  };
  // None of those that travel together overtakes one whose end is being prepared.
  let last: Promise<unknown> = Promise.resolve();
  const countInTurn = (statement: string): Promise<string | undefined> => {
    const counted = last.then(() => count(statement));
    last = counted.catch(() => undefined);
    return counted;
  };
  // A transaction has a runner of its own, so what is put on it goes with it.
  runner.query = (async (statement: string, ...given: unknown[]) => {
    const instead = await countInTurn(statement);
    return instead === undefined ? query(statement, ...given) : query(instead);
  }) as typeof runner.query;
  // Statements that are prepared go to the connection itself, and so does a commit that travels with others. The runner's own come with a list of parameters.
  const connect = runner.connect.bind(runner) as () => Promise<{ query(...given: unknown[]): Promise<unknown> }>;
  runner.connect = async () => {
    const client = await connect();
    const queryCounted = async (...given: unknown[]) => {
      const [asked] = given as [string | { text: string }];
      if (given.length > 1) return client.query(...given);
      const instead = await countInTurn(typeof asked === 'string' ? asked : asked.text);
      return instead === undefined ? client.query(...given) : client.query(instead);
    };
    return new Proxy(client, { get: (_, name) => (name === 'query' ? queryCounted : (Reflect.get(client, name) as unknown)) });
  };
}

let people = 0;

/** One run of one new contact, from its start to its end; with a crash, handed out again after it. */
async function live(type: string, manner: (typeof CUTS)[number]['manner'], crash?: Crash) {
  people += 1;
  const email = `person${people}@example.test`;
  const { api } = onward;
  const contact = await api<{ id: string }>('POST', '/contacts', { email, attributes: { name: 'Ann', gone: 'soon' } });
  const contactId = contact.body.id;
  const prepared = [
    await api('POST', `/lists/${lists[0]}/members`, { contactIds: [contactId] }),
    await api('POST', `/contacts/${contactId}/tags`, { tag: 'old' }),
  ];
  if (prepared.some(({ status }) => status > 299)) throw new Error(`The contact was not prepared: ${JSON.stringify(prepared)}`);
  const started = await api<{ results: { runId: string }[] }>('POST', '/runs', { workflowId: workflows.get(type), contacts: [{ id: contactId }] });
  const runId = started.body.results[0]?.runId ?? '';
  const watched: Watched = { statements: [], crash, hasCrashed: false, worker: new AbortController() };
  entries.set(runId, watched);
  const client = directClient(onward);
  const mortal: Pick<BackendClient, 'call'> = { call: (pattern, data) => client.call(pattern, data, { signal: watched.worker.signal }) };
  const gateway = new HandGateway(client, undefined, undefined, SCENARIOS[type]?.mailRefusals ?? 0);
  try {
    await world.carryOn(runId, { driver: new HandDriver(mortal, { manner }), gateway }).catch(async (error: unknown) => {
      // A frame that is sent again until it is answered leaves nothing to be handed out again.
      if (!watched.hasCrashed || crash?.way === 'dies') throw error;
      await world.carryOn(runId, { driver: new HandDriver(client, { manner }), gateway });
    });
  } finally {
    client.close();
  }
  const state = await everything(runId, contactId, { email, sends: gateway.sends.length });
  return { state, statements: watched.statements, hasCrashed: watched.hasCrashed };
}

/** All that an action can touch, with what differs from run to run put out of it. */
async function everything(runId: string, contactId: string, { email, sends }: { email: string; sends: number }) {
  const [found] = await rows<Record<string, unknown>>(
    onward.source,
    `SELECT (SELECT to_jsonb(one) FROM (SELECT state, node, seq, n, end_reason FROM runs WHERE id = $1) one) AS run,
            (SELECT to_jsonb(one) FROM (SELECT attributes, email_problem FROM contacts WHERE id = $2) one) AS contact,
            (SELECT jsonb_agg(tag ORDER BY tag) FROM contact_tags WHERE contact_id = $2) AS tags,
            (SELECT jsonb_agg(lists.name ORDER BY name) FROM list_members JOIN lists ON lists.id = list_id WHERE contact_id = $2) AS lists,
            (SELECT jsonb_agg(to_jsonb(one)) FROM (SELECT type, payload FROM events WHERE contact_id = $2 ORDER BY received_at, id) one) AS events,
            (SELECT jsonb_agg(to_jsonb(one)) FROM (
               SELECT seq, state, try, result_try, uncertain_tries, subject, text, to_mailbox, failure FROM messages WHERE run_id = $1) one) AS messages,
            (SELECT jsonb_agg(to_jsonb(one)) FROM (
               SELECT seq, request, idempotency_key, encode(body_hash, 'hex') AS hash FROM outbound_requests WHERE run_id = $1) one) AS outbound,
            (SELECT jsonb_agg(to_jsonb(one)) FROM (
               SELECT seq, n, node, node_type, status, port, verb, input, output, failure, warnings, mark, replay_of
               FROM attempts WHERE run_id = $1 ORDER BY seq, n) one) AS attempts`,
    [runId, contactId],
  );
  const requests = target.requestsOf(runId).map(({ key, status, body }) => ({ key, status, body }));
  const keys = (found?.['outbound'] as { idempotency_key: string }[] | null)?.map((one) => one.idempotency_key) ?? [];
  let text = JSON.stringify({ ...found, requests, sends });
  for (const [own, name] of [...keys.map((key) => [key, 'the key'] as const), [email, 'the address'] as const]) text = text.replaceAll(own, name);
  return JSON.parse(
    text.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'an id').replace(/\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)/g, 'an instant'),
  ) as unknown;
}
