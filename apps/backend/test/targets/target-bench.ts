import { rows } from '../../src/database/sql.js';
import type { TargetState } from '../../src/targets/target.entity.js';
import type { BackendForTest } from '../backend-for-test.js';
import { type HandWorker, line, publish, type RunState, send, startRun, tag } from '../runtime/hand-worker.js';

export type TargetRow = {
  id: string;
  state: TargetState;
  why: string | null;
  blockedUntil: Date | null;
  probeRunId: string | null;
  breakerNo: number;
  /** From now by the clock of due times until it is tried again, in ms. */
  inMs: number | null;
};

let count = 0;

/** An origin no other test of the file has spoken of. */
export function newOrigin(): string {
  count += 1;
  return `http://target${count}.example.test`;
}

/** A workflow that calls the origin and then sets a tag. */
export function callingAt(onward: BackendForTest, origin: string, more: Record<string, unknown> = {}): Promise<string> {
  return publish(onward, line(send('call', { with: { url: `${origin}/hook`, method: 'POST', body: { a: 1 } }, ...more }), tag('after')));
}

export async function targetAt({ source }: BackendForTest, origin: string): Promise<TargetRow> {
  const [found] = await rows<TargetRow>(
    source,
    `SELECT id, state, why, blocked_until AS "blockedUntil", probe_run_id AS "probeRunId", breaker_no AS "breakerNo",
       extract(epoch FROM blocked_until - onward_now())::float8 * 1000 AS "inMs" FROM targets WHERE origin = $1`,
    [origin],
  );
  if (!found) throw new Error(`There is no target ${origin}`);
  return found;
}

/** Names the target and has an operator say a word about it. */
export async function operate(onward: BackendForTest, origin: string, word: 'open' | 'close' | 'pause'): Promise<void> {
  await onward.api('POST', '/targets', { origin });
  const answer = await onward.api('POST', `/targets/${(await targetAt(onward, origin)).id}/${word}`);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
}

export type Begun = { runId: string; at: Awaited<ReturnType<HandWorker['begin']>>['at']; last: { kind: string } | undefined };

/** A new run of the workflow, claimed and begun: what it was answered last says whether it may send. */
export async function beginRun(onward: BackendForTest, worker: HandWorker, workflowId: string): Promise<Begun> {
  const { runId } = await startRun(onward, workflowId);
  const { at, replies } = await worker.begin(runId);
  return { runId, at, last: replies.at(-1) };
}

export async function beginRuns(onward: BackendForTest, worker: HandWorker, workflowId: string, howMany: number): Promise<Begun[]> {
  const begun: Begun[] = [];
  while (begun.length < howMany) begun.push(await beginRun(onward, worker, workflowId));
  return begun;
}

export type Waiting = Pick<RunState, 'state' | 'claimId' | 'dueAt' | 'wokenAt' | 'resolution' | 'n'> & {
  id: string;
  waitReason: string | null;
  waitKey: string | null;
};

export function runsOf({ source }: BackendForTest, workflowId: string): Promise<Waiting[]> {
  return rows(
    source,
    `SELECT id, state, n, claim_id AS "claimId", due_at AS "dueAt", woken_at AS "wokenAt", resolution, wait_reason AS "waitReason", wait_key AS "waitKey"
     FROM runs WHERE workflow_id = $1 ORDER BY id`,
    [workflowId],
  );
}

/** Writes `howMany` more runs that wait as this one does. They have no history: only how they are let go can be asked of them. */
export async function parkMore({ source }: BackendForTest, runId: string, howMany: number): Promise<void> {
  await rows(
    source,
    `INSERT INTO runs (id, claim_id, workflow_id, version_id, node, seq, state, due_at, wait_reason, wait_key)
     SELECT gen_random_uuid(), gen_random_uuid(), workflow_id, version_id, node, seq, state, due_at, wait_reason, wait_key FROM runs, generate_series(1, $2) WHERE id = $1`,
    [runId, howMany],
  );
}

export const answered = (status: number, retryAfterMs?: number) => ({
  kind: 'failed' as const,
  failure: {
    code: status >= 500 || status === 429 || status === 408 ? ('http_retryable' as const) : ('http_permanent' as const),
    message: `The target answered ${status}`,
    detail: { status, body: '' },
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  },
});
export const done = { kind: 'done' as const, output: { status: 200 } };
export const blocked = (origin: string, by: 'breaker' | 'rate' | 'busy' | 'held', inMs: number, breakerNo = 0) => ({
  kind: 'not_sent' as const,
  why: `not sent: ${by}`,
  blocked: { origin, by, inMs, breakerNo },
});
