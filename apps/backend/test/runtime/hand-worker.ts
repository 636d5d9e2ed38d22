import type { ReplyOf, RequestOf, RuntimePattern } from '@onward/contracts/patterns';
import { callFrame } from '@onward/wire/call-frame';
import { BackendClient } from '@onward/wire/client';
import type { BackendForTest } from '../backend-for-test.js';
import { rows } from '../../src/database/sql.js';

export type RunState = {
  state: string;
  node: string;
  seq: number;
  n: number;
  claimId: string;
  epoch: number;
  dueAt: Date | null;
  endReason: string | null;
  takeovers: number;
  isHeld: boolean;
  resolution: unknown;
  wokenAt: Date | null;
};
export type AttemptState = {
  seq: number;
  n: number;
  node: string;
  status: string;
  port: string | null;
  verb: string | null;
  failure: { code: string; message: string } | null;
  mark: string | null;
  output: unknown;
};

type Short =
  | 'prepare'
  | 'plan'
  | 'execute'
  | 'latest'
  | 'create'
  | 'update'
  | 'advance'
  | 'wait'
  | 'succeed'
  | 'fail'
  | 'retry'
  | 'dead-letter'
  | 'notify-failed';
const NAMES = {
  prepare: 'automation.runtime.run.prepare',
  plan: 'automation.runtime.plan.get',
  execute: 'automation.runtime.action.execute',
  latest: 'automation.runtime.attempt.latest',
  create: 'automation.runtime.attempt.create',
  update: 'automation.runtime.attempt.update',
  advance: 'automation.runtime.run.advance',
  wait: 'automation.runtime.run.wait',
  succeed: 'automation.runtime.run.succeed',
  fail: 'automation.runtime.run.fail',
  retry: 'automation.runtime.run.retry',
  'dead-letter': 'automation.runtime.run.dead-letter',
  'notify-failed': 'automation.runtime.run.notify-failed',
} as const satisfies Record<Short, RuntimePattern>;

/** A `prepare` may leave out the id of its hand-out: equal numbers are then one hand-out. */
type Given<S extends Short> = S extends 'prepare'
  ? { runId: string; claimId: string } & ({ callId: number; handOutId?: string } | { renew: true; epoch: number })
  : RequestOf<(typeof NAMES)[S]>;

function handedOut(data: object): Record<string, unknown> {
  const { callId, handOutId } = data as { callId?: number; handOutId?: string };
  const id = handOutId ?? `00000000-0000-7000-8000-${String(callId).padStart(12, '0')}`;
  return callId === undefined ? { ...data } : { ...data, handOutId: id };
}

export type HandItem = [Short, Record<string, unknown>];
export type HandReply = { kind: string; [key: string]: unknown };

/** A worker moved by hand: it says each call itself, so that a test can say it twice, late, wrongly or not at all. */
export class HandWorker {
  readonly client: BackendClient;

  /** `secret`: another one than the backend's present. */
  constructor(
    private readonly onward: BackendForTest,
    secret: string = onward.settings.rpcSecrets[0],
  ) {
    this.client = new BackendClient({ host: '127.0.0.1', port: onward.backend.rpcPort, secret, timeoutMs: 10_000 });
  }

  call<S extends Short>(name: S, data: Given<S>): Promise<ReplyOf<(typeof NAMES)[S]>> {
    return this.client.call(NAMES[name], handedOut(data) as never) as Promise<ReplyOf<(typeof NAMES)[S]>>;
  }

  /** One frame of one run; answers its replies (an error as `{ kind: 'error', code }`). */
  async frame(...items: HandItem[]): Promise<HandReply[]> {
    const [answer] = await this.frameOf(0, items);
    return answer?.replies ?? [];
  }

  /** One frame of many runs; with `following` steps at most the backend may go on. Answers of each run what its items came to, and the last step that followed. */
  async frameOf(following: number, ...runs: HandItem[][]): Promise<{ replies: HandReply[]; followed?: HandReply[] }[]> {
    const answer = await callFrame(this.client, {
      v: 1,
      following,
      runs: runs.map((items) => ({ items: items.map(([name, data]) => ({ pattern: NAMES[name], data: handedOut(data) })) })),
    });
    const read = (one: (typeof answer.runs)[number]['replies'][number]) =>
      'error' in one ? { kind: 'error', ...one.error } : (one.reply as unknown as HandReply);
    return answer.runs.map(({ replies, followed }) => ({ replies: replies.map(read), ...(followed && { followed: followed.map(read) }) }));
  }

  /** The claim of a run as its wake-up would have it. */
  async wakeUp(runId: string): Promise<{ runId: string; claimId: string }> {
    return { runId, claimId: (await this.run(runId)).claimId };
  }

  /** Claims the run and begins its step, as a worker's first frame does. */
  async begin(runId: string, callId = 1) {
    const ref = await this.wakeUp(runId);
    const replies = await this.frame(['prepare', { ...ref, callId }], ['plan', ref], ['create', ref], ['execute', ref]);
    const [prepared] = replies;
    const at = { ...ref, epoch: Number(prepared?.['epoch']), seq: Number(prepared?.['seq']) };
    return { at, replies };
  }

  async run(runId: string): Promise<RunState> {
    const [found] = await rows<RunState>(
      this.onward.source,
      `SELECT state, node, seq, n, claim_id AS "claimId", epoch, due_at AS "dueAt", end_reason AS "endReason", takeovers, is_held AS "isHeld", resolution, woken_at AS "wokenAt" FROM runs WHERE id = $1`,
      [runId],
    );
    if (!found) throw new Error(`There is no run ${runId}`);
    return found;
  }

  attempts(runId: string): Promise<AttemptState[]> {
    return rows(this.onward.source, 'SELECT seq, n, node, status, port, verb, failure, mark, output FROM attempts WHERE run_id = $1 ORDER BY seq, n', [runId]);
  }

  close(): void {
    this.client.close();
  }
}

export type GraphNode = { id: string; type: string; config?: Record<string, unknown> };

/** A journey that is a line: trigger, the nodes given in order, end. */
export function line(...nodes: GraphNode[]) {
  const all: GraphNode[] = [{ id: 'start', type: 'trigger', config: { type: 'manual' } }, ...nodes, { id: 'finish', type: 'end' }];
  return { nodes: all, edges: all.slice(1).map((node, index) => ({ from: all[index]?.id ?? '', to: node.id })) };
}

export const tag = (id: string, name = id): GraphNode => ({ id, type: 'action', config: { action: 'ADD_TAG', with: { tag: name } } });
export const wait = (id: string, duration: string | number): GraphNode => ({ id, type: 'wait', config: { kind: 'duration', duration } });
export const send = (id: string, more: Record<string, unknown> = {}): GraphNode => ({
  id,
  type: 'action',
  config: { action: 'FORWARD_REQUEST', with: { url: 'http://127.0.0.1:9/target' }, ...more },
});

export type Graph = { nodes: GraphNode[]; edges: { from: string; port?: string; to: string }[] };

/** Makes and publishes a workflow. */
export async function publish(
  { api }: BackendForTest,
  graph: Graph,
  settings: Record<string, unknown> = { reentry: 'always' },
  name = `workflow ${Math.random()}`,
): Promise<string> {
  const made = await api<{ id: string }>('POST', '/workflows', { name, graph, settings });
  if (made.status !== 201) throw new Error(`The workflow was not made: ${JSON.stringify(made.body)}`);
  const published = await api('POST', `/workflows/${made.body.id}/publish`);
  if (published.status > 299) throw new Error(`The workflow was not published: ${JSON.stringify(published.body)}`);
  return made.body.id;
}

let people = 0;

/** Starts one run by hand for a new contact; answers both ids. */
export async function startRun({ api }: BackendForTest, workflowId: string): Promise<{ runId: string; contactId: string }> {
  people += 1;
  const contact = await api<{ id: string }>('POST', '/contacts', { email: `person${people}@example.test`, attributes: { name: `Person ${people}` } });
  const started = await api<{ results: { runId: string; contactId: string }[] }>('POST', '/runs', { workflowId, contacts: [{ id: contact.body.id }] });
  const [run] = started.body.results;
  if (!run?.runId) throw new Error(`No run was started: ${JSON.stringify(started.body)}`);
  return run;
}
