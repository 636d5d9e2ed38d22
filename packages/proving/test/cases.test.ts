import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';

/** Cases from the field, on one installation of real processes; every case ends the runs it began, so that the clock may be moved on. */

type Attempt = { seq: number; n: number; node: string; status: string; mark: string | null; replayOf: number | null; failure: { code: string } | null };
type Run = {
  id: string;
  state: string;
  node: string;
  versionId: string;
  versionNumber: number;
  unknownNodes: number;
  dueAt: string | null;
  createdAt: string;
  endedAt: string | null;
  endReason: string | null;
  history: Attempt[];
};
type Workflow = { status: string; version: { id: string; number: number }; problems: unknown[]; versionProblems: { code: string; node?: string }[] };

let onward: Installation;
beforeAll(async () => {
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/14`,
  });
  await makeTemplate(onward.api, 'hello');
  await publish(onward.api, 'passes through', line(onEvent('barrier'), tag('pass', 'passed')), { reentry: 'always' });
});
afterAll(() => onward?.close());

/** Sends the event of a contact of the same name; answers the one run it starts. */
async function start(event: string, who: string, attributes: Record<string, unknown> = {}): Promise<string> {
  const contact = { email: `${who}@example.test`, attributes: { name: who, ...attributes } };
  const { runs } = (await onward.api.must('POST', '/events', { id: who, type: event, contact, payload: { of: who } })) as { runs: { runId: string }[] };
  expect(runs).toHaveLength(1);
  return String(runs[0]?.runId);
}

const read = async (id: string) => (await onward.api.must('GET', `/runs/${id}`)) as unknown as Run;
const readWorkflow = async (id: string) => (await onward.api.must('GET', `/workflows/${id}`)) as unknown as Workflow;
const until = (id: string, state: string) => onward.until(`run ${id} is ${state}`, async () => (await read(id)).state === state);
const stepsOf = ({ history }: Run, node: string) => history.filter((attempt) => attempt.node === node);
const advance = (by: string) => onward.api.must('POST', '/test/clock', { advance: by });
const mailsTo = (who: string) => onward.mail.messages().filter(({ to }) => to.includes(`${who}@example.test`));
const requestsTo = (path: string) => onward.target.requests().filter((request) => request.path === path);

/** A run that starts and ends now: whatever was due before it has been taken up before it, for what is due is woken oldest first. */
let barriers = 0;
async function passBarrier(): Promise<void> {
  barriers += 1;
  await until(await start('barrier', `barrier-${barriers}`), 'succeeded');
}

async function restart(...names: string[]): Promise<void> {
  const before = names.map((name) => onward.processes[name]?.countRestarts() ?? 0);
  for (const name of names) onward.processes[name]?.kill('SIGTERM');
  await onward.until('each was started again', async () => names.every((name, index) => (onward.processes[name]?.countRestarts() ?? 0) > (before[index] ?? 0)));
  await onward.until('the backend is ready', async () => (await onward.api.ready()) === 200);
}

test('F22: two branches that meet in one node send exactly one mail, and no run waits for the branch it did not take', async () => {
  const graph = {
    nodes: [
      { id: 'start', type: 'trigger', config: onEvent('f22') },
      { id: 'is_pro', type: 'condition', config: { tests: [{ field: 'contact.attributes.plan', op: 'equals', value: 'pro' }] } },
      mailTo('greet', 'hello'),
      { id: 'finish', type: 'end' },
    ],
    edges: [
      { from: 'start', to: 'is_pro' },
      { from: 'is_pro', port: 'true', to: 'greet' },
      { from: 'is_pro', port: 'false', to: 'greet' },
      { from: 'greet', to: 'finish' },
    ],
  };
  await publish(onward.api, 'F22', graph);
  const [yes, no] = [await start('f22', 'f22-yes', { plan: 'pro' }), await start('f22', 'f22-no', { plan: 'free' })];
  for (const id of [yes, no]) await until(id, 'succeeded');
  const ports = await onward.query<{ port: string }>(`SELECT port FROM attempts WHERE node = 'is_pro' AND run_id = ANY ($1) ORDER BY port`, [[yes, no]]);
  expect(ports.map(({ port }) => port)).toEqual(['false', 'true']);
  expect([mailsTo('f22-yes').length, mailsTo('f22-no').length]).toEqual([1, 1]);
  expect(await checkHistories(onward)).toEqual([]);
});

test('F75: a replayed dead letter goes on where it stopped, on its own version or on the one that is chosen, and only once', async () => {
  const { api, target, query } = onward;
  const journey = (url: string) => line(onEvent('f75'), mailTo('first', 'hello'), forward('call', url), tag('close', 'closed'));
  const workflow = await publish(api, 'F75', journey(`${target.url}/f75-v1`), { notify: ['ops@example.test'] });
  target.mode((request) => (request.path.startsWith('/f75') ? { kind: 'fail' } : { kind: 'ok' }));
  const [same, chosen] = [await start('f75', 'f75-same'), await start('f75', 'f75-chosen')];
  for (const id of [same, chosen]) {
    await onward.until(`run ${id} is given up`, async () => {
      await advance('10m');
      return (await read(id)).state === 'dead_lettered';
    });
  }
  expect(requestsTo('/f75-v1')).toHaveLength(6);
  const notices = await onward.mail.waitFor((all) => all.filter(({ to }) => to.includes('ops@example.test')).length === 2);
  const texts = await Promise.all(notices.filter(({ to }) => to.includes('ops@example.test')).map(async (notice) => (await notice.parse()).text ?? ''));
  for (const id of [same, chosen]) expect(texts.filter((text) => text.includes(id) && text.includes('call'))).toHaveLength(1);

  await api.must('PATCH', `/workflows/${workflow}`, { graph: journey(`${target.url}/f75-v2`) });
  await api.must('POST', `/workflows/${workflow}/publish`);
  const second = (await readWorkflow(workflow)).version;
  expect(second.number).toBe(2);
  target.mode({ kind: 'ok' });
  const [sameBefore, chosenBefore] = [await read(same), await read(chosen)];
  expect(stepsOf(sameBefore, 'call').map(({ n, status }) => [n, status])).toEqual([1, 2, 3].map((n) => [n, 'failed']));

  // Two at once: the first finds the dead letter, the second a run that is no longer one.
  const answers = await Promise.all([1, 2].map(() => api.call('POST', `/runs/${same}/replay`, {})));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
  await until(same, 'succeeded');
  expect([requestsTo('/f75-v1').length, requestsTo('/f75-v2').length]).toEqual([7, 0]);
  const sameAfter = await read(same);
  expect([sameAfter.versionNumber, sameAfter.versionId]).toEqual([1, sameBefore.versionId]);
  expect(sameAfter.history.slice(0, sameBefore.history.length)).toEqual(sameBefore.history);
  const failedSeq = stepsOf(sameBefore, 'call')[0]?.seq;
  expect(sameAfter.history[sameBefore.history.length]).toMatchObject({ node: 'call', status: 'done', n: 1, replayOf: failedSeq });
  const bodies = requestsTo('/f75-v1')
    .map(({ body }) => JSON.parse(body.toString()) as { event: unknown; contact: { email: string } })
    .filter(({ contact }) => contact.email === 'f75-same@example.test');
  expect(bodies.map(({ event }) => event)).toEqual([1, 2, 3, 4].map(() => ({ of: 'f75-same' })));

  await api.must('POST', `/runs/${chosen}/replay`, { versionId: second.id });
  await until(chosen, 'succeeded');
  expect([requestsTo('/f75-v1').length, requestsTo('/f75-v2').length]).toEqual([7, 1]);
  const chosenAfter = await read(chosen);
  expect([chosenAfter.versionNumber, chosenAfter.versionId]).toEqual([2, second.id]);
  expect(chosenAfter.history.slice(0, chosenBefore.history.length)).toEqual(chosenBefore.history);

  expect([mailsTo('f75-same').length, mailsTo('f75-chosen').length]).toEqual([1, 1]);
  expect((await api.call('POST', `/runs/${same}/replay`, {})).status).toBe(409);
  expect(await query(`SELECT 1 FROM attempts WHERE node = 'first' AND run_id = ANY ($1)`, [[same, chosen]])).toHaveLength(2);
  expect(await checkHistories(onward)).toEqual([]);
});

test('F71: a run cancelled in a wait or during a request does nothing more, ends cancelled, and stays so when every process is started again', async () => {
  const { api, target } = onward;
  await publish(api, 'F71 waits', line(onEvent('f71.wait'), wait('rest', '1d'), mailTo('late', 'hello')));
  await publish(api, 'F71 calls', line(onEvent('f71.call'), forward('call', `${target.url}/f71`), mailTo('after', 'hello'), tag('close', 'f71-closed')));
  target.mode({ kind: 'late', delayMs: 2_000 });
  const [waiting, calling] = [await start('f71.wait', 'f71-waiting'), await start('f71.call', 'f71-calling')];
  await until(waiting, 'waiting');
  expect((await api.call('POST', `/runs/${waiting}/cancel`)).body).toMatchObject({ cancelled: 'now', run: { state: 'cancelled' } });
  await onward.until('the target has the request', async () => requestsTo('/f71').length === 1);
  expect((await api.call('POST', `/runs/${calling}/cancel`)).body).toMatchObject({ cancelled: 'after_step', run: { state: 'running' } });
  expect((await api.call('POST', `/runs/${calling}/cancel`)).body).toMatchObject({ cancelled: 'before' });
  await until(calling, 'cancelled');

  const before = [await read(waiting), await read(calling)] as const;
  expect(before.map(({ node, endReason }) => [node, endReason])).toEqual([
    ['rest', 'cancelled by request'],
    ['call', 'cancelled by request'],
  ]);
  expect(before[0].history.map(({ node, status }) => [node, status])).toEqual([
    ['start', 'done'],
    ['rest', 'waiting'],
  ]);
  expect(before[1].history.map(({ node, status }) => [node, status])).toEqual([
    ['start', 'done'],
    ['call', 'done'],
  ]);
  for (const { id } of before) expect((await api.call('POST', `/runs/${id}/cancel`)).status).toBe(200);

  await advance('25h');
  await passBarrier();
  await restart(...Object.keys(onward.processes));
  await advance('25h');
  await passBarrier();
  expect([await read(waiting), await read(calling)]).toEqual(before);
  expect([mailsTo('f71-waiting').length, mailsTo('f71-calling').length, requestsTo('/f71').length]).toEqual([0, 0, 1]);
  expect(await onward.query(`SELECT 1 FROM contact_tags WHERE tag = 'f71-closed'`)).toEqual([]);
  target.mode({ kind: 'ok' });

  const [finished] = await onward.query<{ id: string }>(`SELECT id FROM runs WHERE state = 'succeeded' LIMIT 1`);
  expect((await api.call('POST', `/runs/${finished?.id}/cancel`)).status).toBe(409);
  expect(await checkHistories(onward)).toEqual([]);
});

test('F09: a wait of 40 days, or of more than 2^32 ms, ends when it is over and not at once', async () => {
  const { api, query } = onward;
  const waits = [
    { who: 'f09-days', duration: '40d', ms: 40 * 86_400_000 },
    { who: 'f09-ms', duration: 4_294_972_296, ms: 4_294_972_296 },
  ] as const;
  const linesBefore = onward.lines.length;
  for (const { who, duration, ms } of waits) {
    await publish(api, who, line(onEvent(who), { id: 'rest', type: 'wait', config: { kind: 'duration', duration } }, mailTo('greet', 'hello')));
    const id = await start(who, who);
    await until(id, 'waiting');
    const { dueAt, history } = await read(id);
    const [begun] = await query<{ at: Date }>(`SELECT started_at AS at FROM attempts WHERE run_id = $1 AND node = 'rest'`, [id]);
    expect(history).toHaveLength(2);
    expect(Math.abs(Date.parse(dueAt ?? '') - (begun?.at.getTime() ?? 0) - ms)).toBeLessThanOrEqual(1_000);
  }
  const waiting = () => query(`SELECT claim_id, epoch, state FROM runs WHERE event_id LIKE 'f09-%' ORDER BY event_id`);
  const before = await waiting();
  await advance('1m');
  await passBarrier();
  await advance('39d');
  await passBarrier();
  // Nobody has claimed them, and so nothing goes round and round.
  expect(await waiting()).toEqual(before);
  expect([mailsTo('f09-days').length, mailsTo('f09-ms').length]).toEqual([0, 0]);

  await advance('1d');
  await advance('1m');
  await onward.mail.waitFor(() => mailsTo('f09-days').length > 0);
  await advance('10d');
  await letAllEnd(onward);
  expect([mailsTo('f09-days').length, mailsTo('f09-ms').length]).toEqual([1, 1]);
  expect(onward.lines.filter((printed) => printed.includes('TimeoutOverflow'))).toEqual([]);
  expect(onward.lines.length).toBeGreaterThan(linesBefore);
  expect(await checkHistories(onward)).toEqual([]);
});

test('F20: a node type nobody knows hurts only runs that reach it: they go on, marked, and its workflow can be paused and mended', async () => {
  const { api, query } = onward;
  const journey = line(onEvent('f20.one'), wait('before', '1h'), tag('risky', 'f20-risky'), wait('behind', '1h'), tag('last', 'f20-last'));
  const first = await publish(api, 'F20 one', journey, { reentry: 'always' });
  const second = await publish(api, 'F20 two', line(onEvent('f20.two'), tag('two', 'f20-two')), { reentry: 'always' });
  const past = await start('f20.one', 'f20-past');
  await until(past, 'waiting');
  await advance('61m');
  await onward.until('the run is past the node', async () => (await read(past)).node === 'behind');
  const reaching = await start('f20.one', 'f20-reaching');
  await until(reaching, 'waiting');

  const faxed = (column: string) => `jsonb_set(${column}, '{nodes,2,type}', '"SEND_FAX"')`;
  await query(`UPDATE workflow_versions SET graph = ${faxed('graph')} WHERE workflow_id = $1`, [first]);
  await query(`UPDATE workflows SET draft = ${faxed('draft')} WHERE id = $1`, [first]);
  await restart('backend', 'worker-1');
  const restarts = Object.values(onward.processes).map((one) => one.countRestarts());

  await until(await start('f20.two', 'f20-two'), 'succeeded');
  const opened = await readWorkflow(first);
  expect(opened.versionProblems).toMatchObject([{ code: 'unknown_node_type', node: 'risky' }]);
  expect(opened.problems).toMatchObject([{ code: 'unknown_node_type', node: 'risky' }]);
  expect((await readWorkflow(second)).versionProblems).toEqual([]);

  expect((await api.call('POST', `/workflows/${first}/pause`)).body).toMatchObject({ status: 'paused' });
  expect((await api.call('PATCH', `/workflows/${first}`, { graph: journey })).body).toMatchObject({ problems: [] });
  expect((await api.call('POST', `/workflows/${first}/resume`)).body).toMatchObject({ status: 'active' });

  await onward.until('both runs have ended', async () => {
    await advance('61m');
    return (await read(past)).endedAt !== null && (await read(reaching)).endedAt !== null;
  });
  const [pastAfter, reachingAfter] = [await read(past), await read(reaching)];
  expect([pastAfter.state, pastAfter.unknownNodes, stepsOf(pastAfter, 'risky')[0]?.mark]).toEqual(['succeeded', 0, null]);
  expect([reachingAfter.state, reachingAfter.unknownNodes]).toEqual(['succeeded', 1]);
  expect(stepsOf(reachingAfter, 'risky')).toMatchObject([{ n: 1, status: 'done', mark: 'unknown_node' }]);
  expect(stepsOf(reachingAfter, 'last')).toMatchObject([{ status: 'done' }]);
  const tags = await query<{ tag: string }>(`SELECT tag FROM contact_tags JOIN contacts ON contacts.id = contact_id WHERE email = 'f20-reaching@example.test'`);
  expect(tags).toEqual([{ tag: 'f20-last' }]);
  expect(onward.lines.filter((printed) => printed.includes('SEND_FAX') && printed.includes(reaching))).toHaveLength(1);
  expect(Object.values(onward.processes).map((one) => one.countRestarts())).toEqual(restarts);

  await api.must('POST', `/workflows/${first}/publish`);
  const mended = await start('f20.one', 'f20-mended');
  await letAllEnd(onward);
  expect(stepsOf(await read(mended), 'risky')).toMatchObject([{ status: 'done', mark: null }]);
  // The one history that no longer fits its version is that of the run under which it was changed.
  expect(await checkHistories(onward)).toEqual([expect.stringMatching(new RegExp(`^run ${past}: its history does not replay at step 3: node "risky"`))]);
});
