/**
 * The checker: reads what an installation recorded, and what its sinks saw, and names every breach of the invariants it finds.
 * It stands outside: it uses the database as a witness, the sinks as another, and the pure rules to replay each history.
 */
import { createHash } from 'node:crypto';
import type { SinkMessage } from '@onward/stack/mail-sink';
import type { SinkRequest } from '@onward/stack/webhook-sink';
import { compileGraph } from '@onward/workflow-graph/compile-graph';
import { type HistoryEntry, replayHistory } from '@onward/workflow-graph/interpret';
import { checkCommits, readCommits } from './commit-log.js';
import type { Installation } from './installation.js';

type RunRow = { id: string; state: string; node: string; seq: number; versionId: string; reentryKey: string | null };
type AttemptRow = {
  runId: string;
  seq: number;
  n: number;
  node: string;
  type: string;
  status: string;
  port: string | null;
  epoch: number;
  input: unknown;
  replayOf: number | null;
};

/** Every breach found, in words; none is what a test asks for. Asked when everything is at rest. */
export async function checkHistories({ query, target, mail }: Pick<Installation, 'query' | 'target' | 'mail'>): Promise<string[]> {
  // Seen before the rows are read: each has its record by then, and what a notice sends meanwhile is not looked at.
  const [requests, received] = [[...target.requests()], [...mail.messages()]];
  const runs = await query<RunRow>('SELECT id, state, node, seq, version_id AS "versionId", reentry_key AS "reentryKey" FROM runs ORDER BY id');
  const attempts = await query<AttemptRow>(
    'SELECT run_id AS "runId", seq, n, node, node_type AS type, status, port, epoch, input, replay_of AS "replayOf" FROM attempts ORDER BY run_id, seq, n',
  );
  const graphs = new Map(
    (await query<{ id: string; graph: unknown }>('SELECT id, graph FROM workflow_versions')).map(({ id, graph }) => [id, compileGraph(graph)]),
  );
  const byRun = groupBy(attempts);
  const commits = await readCommits(query);
  const breaches: string[] = [];
  for (const run of runs) {
    const own = byRun.get(run.id) ?? [];
    breaches.push(...checkSteps(run, own), ...checkCommits(run.id, commits.get(run.id) ?? []));
    const graph = graphs.get(run.versionId);
    breaches.push(...(graph ? checkReplay(run, own, graph) : [`run ${run.id} has no version ${run.versionId}`]));
  }
  breaches.push(...(await checkBelonging(query)));
  breaches.push(...(await checkReasonsToWait(query)));
  breaches.push(...checkTarget(await readSent(query), requests));
  breaches.push(...(await checkMail(await readMessages(query), received)));
  return breaches;
}

/** No foreign key holds these: whatever belongs to a run has one, and every run has what it was started with. */
async function checkBelonging(query: Installation['query']): Promise<string[]> {
  const found = await query<{ what: string; id: string }>(
    `SELECT 'an attempt' AS what, run_id AS id FROM attempts WHERE NOT EXISTS (SELECT FROM runs WHERE id = run_id)
     UNION SELECT 'a request', run_id FROM outbound_requests WHERE NOT EXISTS (SELECT FROM runs WHERE id = run_id)
     UNION SELECT 'a context', run_id FROM run_contexts WHERE NOT EXISTS (SELECT FROM runs WHERE id = run_id)
     UNION SELECT 'a run without a context', id FROM runs WHERE NOT EXISTS (SELECT FROM run_contexts WHERE run_id = id)`,
  );
  return found.map(({ what, id }) => `${what} stands alone: ${id}`);
}

const ENDED: ReadonlySet<string> = new Set(['succeeded', 'failed', 'dead_lettered', 'cancelled']);
const UNDER_WAY: ReadonlySet<string> = new Set(['open', 'sending']);

/** Invariants 3, 4 and 6: one closing attempt a step, no gap, epochs that never fall, at most 3 failed; nothing goes on behind a step or an end. */
function checkSteps(run: RunRow, attempts: readonly AttemptRow[]): string[] {
  const breaches: string[] = [];
  const steps = [...new Set(attempts.map(({ seq }) => seq))];
  steps.forEach((seq, index) => {
    if (seq !== index + 1) breaches.push(`run ${run.id}: step ${index + 1} is missing`);
  });
  let epoch = 0;
  for (const attempt of attempts) {
    if (attempt.epoch < epoch) breaches.push(`run ${run.id}: step ${attempt.seq} was committed by epoch ${attempt.epoch} after ${epoch}`);
    epoch = attempt.epoch;
  }
  for (const { seq, status } of attempts) {
    if (UNDER_WAY.has(status) && (ENDED.has(run.state) || seq < run.seq)) breaches.push(`run ${run.id}: step ${seq} is ${status} for ever`);
  }
  for (const seq of steps) {
    const tries = attempts.filter((attempt) => attempt.seq === seq);
    if (tries.filter(({ status }) => status === 'done').length > 1) breaches.push(`run ${run.id}: step ${seq} is done twice`);
    if (tries.filter(({ status }) => status === 'failed').length > 3) breaches.push(`run ${run.id}: step ${seq} failed more than 3 times`);
    tries.forEach(({ n }, index) => {
      if (n !== index + 1) breaches.push(`run ${run.id}: step ${seq} has no attempt ${index + 1}`);
    });
  }
  if (run.state === 'running' || run.state === 'pending') breaches.push(`run ${run.id} is ${run.state} at rest`);
  return breaches;
}

function checkReplay(run: RunRow, attempts: readonly AttemptRow[], graph: ReturnType<typeof compileGraph>): string[] {
  const last = new Map<number, AttemptRow>();
  for (const attempt of attempts) last.set(attempt.seq, attempt);
  const first = new Map(attempts.filter(({ n }) => n === 1).map((attempt) => [attempt.seq, attempt]));
  const entries = [...last.values()].map(({ seq, node, type, port, input }): HistoryEntry => {
    const replayOf = first.get(seq)?.replayOf;
    return { seq, node, type, port, ...(type === 'condition' && Array.isArray(input) ? { seen: input } : {}), ...(replayOf ? { replayOf } : {}) };
  });
  const replayed = replayHistory(graph, entries);
  if (!replayed.ok) return [`run ${run.id}: its history does not replay at step ${replayed.seq}: ${replayed.reason}`];
  const final = entries.at(-1);
  // A run whose cancel was asked for during a step stays on that step, however the step ended; one that was cancelled before it began has no history.
  const isCancelledHere = run.state === 'cancelled' && (final ? final.node === run.node && final.seq === run.seq : run.seq === 1);
  const stands = isCancelledHere || (replayed.at === run.node && replayed.seq === run.seq);
  return stands ? [] : [`run ${run.id} stands at ${run.seq} ${run.node}, its history leads to ${replayed.seq} ${replayed.at}`];
}

/** Invariant 2: whoever waits has a time, or something that can still come. */
async function checkReasonsToWait(query: Installation['query']): Promise<string[]> {
  const lost = await query<{ id: string }>(
    `SELECT id FROM runs WHERE state = 'waiting' AND due_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM messages WHERE 'mail:' || messages.id = wait_key AND messages.state IN ('prepared', 'begun'))
       AND NOT EXISTS (SELECT 1 FROM targets WHERE 'target:' || targets.origin = wait_key AND targets.state = 'paused')`,
  );
  return lost.map(({ id }) => `run ${id} waits for something that has come or never will`);
}

type Sent = { key: string; hash: string; attempts: number };

async function readSent(query: Installation['query']): Promise<Sent[]> {
  return query<Sent>(
    `SELECT idempotency_key AS key, min(encode(body_hash, 'hex')) AS hash,
            sum((SELECT count(*) FROM attempts a WHERE a.run_id = o.run_id AND a.seq = o.seq))::int AS attempts
     FROM outbound_requests o GROUP BY idempotency_key`,
  );
}

/** Invariant 6: one key and one body for a step, and no more requests than attempts. */
function checkTarget(sent: readonly Sent[], requests: readonly SinkRequest[]): string[] {
  const known = new Map(sent.map((one) => [one.key, one]));
  const seen = new Map<string, SinkRequest[]>();
  for (const request of requests) {
    const key = request.headers['idempotency-key'] ?? '';
    seen.set(key, [...(seen.get(key) ?? []), request]);
  }
  return [...seen].flatMap(([key, received]) => {
    const one = known.get(key);
    if (!one) return [`the target saw a request with the key ${key}, of which there is no record`];
    const tooMany = received.length > one.attempts ? [`the target saw ${received.length} requests of a step with ${one.attempts} attempts`] : [];
    const hashes = new Set(received.filter(({ isComplete }) => isComplete).map(({ body }) => createHash('sha256').update(body).digest('hex')));
    return [...tooMany, ...(hashes.size > 1 || (hashes.size === 1 && !hashes.has(one.hash)) ? [`the target saw another body than was frozen for ${key}`] : [])];
  });
}

type MessageRow = { header: string; state: string; try: number };

async function readMessages(query: Installation['query']): Promise<MessageRow[]> {
  return query<MessageRow>('SELECT message_id_header AS header, state, try FROM messages');
}

/** A message reaches the mail server at most as often as it was tried, always under one Message-ID. */
async function checkMail(messages: readonly MessageRow[], received: readonly SinkMessage[]): Promise<string[]> {
  const tries = new Map(messages.map(({ header, try: count }) => [header, count]));
  const seen = new Map<string, number>();
  for (const message of received) {
    const { messageId = '' } = await message.parse();
    seen.set(messageId, (seen.get(messageId) ?? 0) + 1);
  }
  return [...seen].flatMap(([id, count]) => {
    const allowed = tries.get(id);
    if (allowed === undefined) return [`the mail server saw ${id}, of which there is no record`];
    return count > allowed ? [`the mail server saw ${id} ${count} times, it was tried ${allowed} times`] : [];
  });
}

function groupBy(attempts: readonly AttemptRow[]): Map<string, AttemptRow[]> {
  const grouped = new Map<string, AttemptRow[]>();
  for (const attempt of attempts) grouped.set(attempt.runId, [...(grouped.get(attempt.runId) ?? []), attempt]);
  return grouped;
}
