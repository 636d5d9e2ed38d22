import { createHash, randomUUID } from 'node:crypto';
import type { RunState } from '@onward/contracts/patterns';
import { BackendClient } from '@onward/wire/client';
import { compileGraph } from '@onward/workflow-graph/compile-graph';
import { type HistoryEntry, replayHistory } from '@onward/workflow-graph/interpret';
import { transactAndTell } from '../../src/database/outbox.js';
import { change, rows } from '../../src/database/sql.js';
import { sweepMessages } from '../../src/mail/sweep-messages.js';
import { sweepNotices } from '../../src/notifications/sweep-notices.js';
import { Queues } from '../../src/operations/queues.js';
import { isEnded } from '../../src/runtime/moves.js';
import { RuntimeKit } from '../../src/runtime/runtime-kit.js';
import { lapseRuns } from '../../src/sweeper/lapse-runs.js';
import type { BackendForTest } from '../backend-for-test.js';
import { type Claimed, HandDriver, type HandGateway, type Rest, type Target } from './hand-driver.js';

export type RunNow = { state: RunState; node: string; seq: number; claimId: string; callNo: number; dueAt: Date | null };
type AttemptNow = {
  seq: number;
  n: number;
  node: string;
  type: string;
  status: string;
  port: string | null;
  input: unknown;
  replayOf: number | null;
};

/** A hand-out number above all that came before, whatever the first hand-outs were. */
const LATER = 1_000;

/**
 * What happens around a worker, for one run at a time: the queue hands its job out again, time passes, leases lapse, mail is delivered, an
 * operator replays. Everything goes through the product's own code; only clocks of single rows are moved, so that many runs can be led at once.
 */
export function outerWorld(onward: BackendForTest, target: Target) {
  const { source } = onward;
  const teller = onward.backend.app.get(Queues, { strict: false });
  const kit = onward.backend.app.get(RuntimeKit, { strict: false });

  const readRun = async (runId: string): Promise<RunNow> => {
    const [run] = await rows<RunNow>(
      source,
      'SELECT state, node, seq, claim_id AS "claimId", coalesce(call_no, 0) AS "callNo", due_at AS "dueAt" FROM runs WHERE id = $1',
      [runId],
    );
    if (!run) throw new Error(`There is no run ${runId}`);
    return run;
  };
  const readAttempts = (runId: string) =>
    rows<AttemptNow>(
      source,
      'SELECT seq, n, node, node_type AS type, status, port, input, replay_of AS "replayOf" FROM attempts WHERE run_id = $1 ORDER BY seq, n',
      [runId],
    );
  const readMessages = (runId: string) =>
    rows<{ id: string; try: number; state: string; header: string }>(
      source,
      'SELECT id, try, state, message_id_header AS header FROM messages WHERE run_id = $1',
      [runId],
    );

  /** Its time comes, and no earlier claim is touched by that. */
  const letTimePass = (runId: string) =>
    change(source, `UPDATE runs SET due_at = onward_now() - interval '1 millisecond' WHERE id = $1 AND due_at IS NOT NULL`, [runId]);

  /** The worker of this run is gone: its lease is over, and the sweeper takes the run back. */
  const lapse = async (runId: string) => {
    await change(source, `UPDATE runs SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1 AND state = 'running'`, [runId]);
    await transactAndTell(source, teller, (tx) => lapseRuns(tx, kit));
  };

  /** Nobody said what became of a try that had begun. */
  const lapseMail = async (runId: string) => {
    await change(source, `UPDATE messages SET begun_until = clock_timestamp() - interval '1 second' WHERE run_id = $1 AND state = 'begun'`, [runId]);
    await sweepMessages(source, teller, { isQueueThere: true });
  };

  /** Hands the mail of a resting run to the gateway, as the queue does. */
  const deliverMail = async (runId: string, gateway: HandGateway) => {
    for (const { id, try: nth, state } of await readMessages(runId)) {
      if (state === 'prepared') return gateway.deliver({ messageId: id, try: nth });
      if (state === 'begun') return lapseMail(runId);
    }
    throw new Error(`Run ${runId} waits for a mail that nobody has to send`);
  };

  /** Leads a run on until it has ended, or `isOver` says so after a hand-out or a delivery. Answers what the last hand-out came to. */
  const carryOn = async (
    runId: string,
    { driver, gateway, isOver = () => false }: { driver: HandDriver; gateway: HandGateway; isOver?: () => boolean },
  ): Promise<Rest | undefined> => {
    let rest: Rest | undefined;
    for (let turn = 1; turn <= 30; turn += 1) {
      const run = await readRun(runId);
      if (isEnded(run.state) || isOver()) return rest;
      if (run.state === 'waiting' && run.dueAt === null) {
        await deliverMail(runId, gateway);
        continue;
      }
      if (run.state !== 'running') await letTimePass(runId);
      rest = await driver.handOut({ runId, claimId: run.claimId, node: run.node }, { callId: run.callNo + 1, handOutId: randomUUID() });
    }
    throw new Error(`Run ${runId} does not come to an end: ${JSON.stringify(await readRun(runId))}`);
  };

  /** Somebody else claims the run, wherever it stands: handed out again, due, or replayed. Null for one that nothing moves any more. */
  const takeOver = async (runId: string, other: HandDriver, gateway: HandGateway): Promise<Claimed | null> => {
    let run = await readRun(runId);
    if (run.state === 'failed' || run.state === 'dead_lettered') {
      const { status, body } = await onward.api('POST', `/runs/${runId}/replay`, {});
      if (status > 299) throw new Error(`The run was not replayed: ${JSON.stringify(body)}`);
    }
    if (run.state === 'waiting' && run.dueAt === null) await deliverMail(runId, gateway);
    await letTimePass(runId);
    run = await readRun(runId);
    const claimed = await other.claim({ runId, claimId: run.claimId, node: run.node }, { callId: LATER, handOutId: randomUUID() });
    if ('epoch' in claimed) return claimed;
    if (isEnded(run.state)) return null;
    throw new Error(`The run could not be taken over: ${JSON.stringify(claimed)}`);
  };

  /** Every breach of what must hold of a run that has ended, in words. */
  const breachesOf = async (runId: string, contactId: string, sends: readonly { messageId: string; header: string }[]): Promise<string[]> => {
    await sweepNotices(source, teller, onward.settings);
    const run = await readRun(runId);
    const attempts = await readAttempts(runId);
    return [
      ...(await breachesOfHistory(source, runId, run, attempts)),
      ...(await breachesOfTarget(source, runId, attempts, target)),
      ...breachesOfMail(await readMessages(runId), sends),
      ...(await breachesOfEffects(source, runId, contactId, attempts)),
    ];
  };

  return { readRun, readAttempts, readMessages, letTimePass, lapse, lapseMail, carryOn, takeOver, breachesOf };
}
export type OuterWorld = ReturnType<typeof outerWorld>;

export function directClient(onward: BackendForTest, port = onward.backend.rpcPort): BackendClient {
  return new BackendClient({ host: '127.0.0.1', port, secret: onward.settings.rpcSecrets[0], timeoutMs: 60_000 });
}

type Source = BackendForTest['source'];

async function breachesOfHistory(source: Source, runId: string, run: RunNow, attempts: readonly AttemptNow[]): Promise<string[]> {
  const breaches: string[] = [];
  const steps = [...new Set(attempts.map(({ seq }) => seq))];
  if (steps.some((seq, index) => seq !== index + 1)) breaches.push(`the steps are ${steps.join(', ')}`);
  for (const seq of steps) {
    const tries = attempts.filter((attempt) => attempt.seq === seq);
    const count = (status: string) => tries.filter((attempt) => attempt.status === status).length;
    if (count('done') > 1) breaches.push(`step ${seq} is done ${count('done')} times`);
    if (count('failed') > 3) breaches.push(`step ${seq} failed ${count('failed')} times`);
    for (const status of ['open', 'sending', 'waiting', 'not_sent']) if (count(status) > 0) breaches.push(`step ${seq} is ${status} in a run that has ended`);
    if (tries.some(({ n }, index) => n !== index + 1)) breaches.push(`step ${seq} has the attempts ${tries.map(({ n }) => n).join(', ')}`);
  }
  const [version] = await rows<{ graph: unknown }>(
    source,
    'SELECT graph FROM workflow_versions JOIN runs ON runs.version_id = workflow_versions.id WHERE runs.id = $1',
    [runId],
  );
  const last = [...new Map(attempts.map((attempt) => [attempt.seq, attempt])).values()];
  const entries = last.map(({ seq, node, type, port }): HistoryEntry => {
    const replayOf = attempts.find((attempt) => attempt.seq === seq && attempt.n === 1)?.replayOf;
    return { seq, node, type, port, ...(replayOf ? { replayOf } : {}) };
  });
  const replayed = replayHistory(compileGraph(version?.graph), entries);
  if (!replayed.ok) breaches.push(`the history does not replay at step ${replayed.seq}: ${replayed.reason}`);
  else if (replayed.at !== run.node || replayed.seq !== run.seq)
    breaches.push(`the run stands at ${run.seq} ${run.node}, its history leads to ${replayed.seq} ${replayed.at}`);
  return breaches;
}

/** One key and one body a step, no more requests than attempts, and no attempt spent on what the target never refused. */
async function breachesOfTarget(source: Source, runId: string, attempts: readonly AttemptNow[], target: Target): Promise<string[]> {
  const frozen = await rows<{ seq: number; key: string; hash: string }>(
    source,
    `SELECT seq, idempotency_key AS key, encode(body_hash, 'hex') AS hash FROM outbound_requests WHERE run_id = $1`,
    [runId],
  );
  const seen = target.requestsOf(runId);
  const refusals = seen.filter(({ status }) => status >= 400).length;
  const failures = attempts.filter(({ status }) => status === 'failed').length;
  const breaches = seen.filter(({ key }) => !frozen.some((one) => one.key === key)).map(({ key }) => `the target saw ${key}, of which there is no record`);
  if (failures > refusals) breaches.push(`${failures} attempts failed, and the target refused ${refusals} times`);
  for (const key of new Set(frozen.map((one) => one.key))) {
    const own = frozen.filter((one) => one.key === key);
    const requests = seen.filter((one) => one.key === key);
    const tries = attempts.filter(({ seq }) => own.some((one) => one.seq === seq)).length;
    if (requests.length > tries) breaches.push(`the target saw ${requests.length} requests under a key with ${tries} attempts`);
    const hashes = new Set([...own.map(({ hash }) => hash), ...requests.map(({ body }) => createHash('sha256').update(body).digest('hex'))]);
    if (hashes.size > 1) breaches.push(`the key ${key} has ${hashes.size} bodies`);
  }
  return breaches;
}

function breachesOfMail(
  messages: readonly { id: string; try: number; state: string; header: string }[],
  sends: readonly { messageId: string; header: string }[],
) {
  const breaches = messages.filter(({ state }) => state !== 'sent').map(({ id, state }) => `message ${id} is ${state}`);
  for (const { id, try: tries, header } of messages) {
    const own = sends.filter(({ messageId }) => messageId === id);
    if (own.length > tries) breaches.push(`a mail was sent ${own.length} times in ${tries} tries`);
    if (own.length === 0) breaches.push('a mail that is said to be sent never was');
    if (own.some((one) => one.header !== header)) breaches.push('a mail went out under two Message-IDs');
  }
  if (messages.length > 1) breaches.push(`the step has ${messages.length} messages`);
  return breaches;
}

/** Tags, the events that say so, and the notice: each once for each time there was a reason. */
async function breachesOfEffects(source: Source, runId: string, contactId: string, attempts: readonly AttemptNow[]): Promise<string[]> {
  const [found] = await rows<{ tags: string[]; added: string[]; ends: string[]; notices: { seq: number; sent: boolean; mails: number }[] }>(
    source,
    `SELECT ARRAY(SELECT tag FROM contact_tags WHERE contact_id = $2 ORDER BY 1) AS tags,
            ARRAY(SELECT payload ->> 'tag' FROM events WHERE contact_id = $2 AND type = 'tag.added' ORDER BY 1) AS added,
            ARRAY(SELECT type FROM events WHERE type IN ('run.succeeded', 'run.failed') AND payload ->> 'runId' = $1::uuid::text ORDER BY 1) AS ends,
            (SELECT coalesce(jsonb_agg(jsonb_build_object('seq', seq, 'sent', sent_at IS NOT NULL,
                'mails', (SELECT count(*) FROM messages WHERE notice_id = notices.id))), '[]') FROM notices WHERE run_id = $1) AS notices`,
    [runId, contactId],
  );
  if (!found) throw new Error('Nothing was read');
  const expected = [
    ...new Set(attempts.filter(({ node, status }) => (node === 'mark' || node === 'close') && status === 'done').map(({ node }) => node)),
  ].sort();
  const breaches: string[] = [];
  if (found.tags.join() !== expected.join()) breaches.push(`the tags are ${found.tags.join()}, the steps done ${expected.join()}`);
  if (found.added.join() !== found.tags.join()) breaches.push(`tag.added was emitted for ${found.added.join()}, the tags are ${found.tags.join()}`);
  const failures = attempts.filter(({ replayOf }) => replayOf !== null).length;
  const run = await rows<{ state: RunState }>(source, 'SELECT state FROM runs WHERE id = $1', [runId]);
  const ends = [...Array<string>(failures).fill('run.failed'), run[0]?.state === 'succeeded' ? 'run.succeeded' : 'run.failed'];
  if (found.ends.join() !== ends.join()) breaches.push(`the ends emitted are ${found.ends.join()}, and should be ${ends.join()}`);
  const failed = ends.filter((end) => end === 'run.failed').length;
  if (found.notices.length !== failed) breaches.push(`${found.notices.length} notices of ${failed} ends that need one`);
  for (const { seq, sent, mails } of found.notices) if (!sent || mails !== 1) breaches.push(`the notice of step ${seq} went out ${mails} times`);
  return breaches;
}
