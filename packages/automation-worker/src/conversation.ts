import { randomUUID } from 'node:crypto';
import { FRAME_PATTERN, type FrameItem } from '@onward/contracts/frame';
import type { OutboundRequest } from '@onward/contracts/outbound';
import type { Outcome } from '@onward/contracts/outcome';
import type { ReplyOf, RuntimePattern, Tally, Verb } from '@onward/contracts/patterns';
import type { PlanNode } from '@onward/contracts/plan';
import type { WakeUp } from '@onward/contracts/queues';
import type { TargetLimits } from '@onward/contracts/targets';
import type { BackendClient } from '@onward/wire/client';
import type { FailPoints } from '@onward/wire/fail-points';
import { RpcFault } from '@onward/wire/faults';
import { judge } from '@onward/workflow-graph/judge';
import type { FrameBatcher, RunAnswer } from './frame-batcher.js';
import type { Held, Leases } from './leases.js';
import type { PlanCache } from './plan-cache.js';

/** The step a worker has in hand. `work` is the outcome of what the backend has done already, or a request to send and what its target's limits are. */
export type Step = {
  runId: string;
  claimId: string;
  epoch: number;
  seq: number;
  n: number;
  node: string;
  versionId: string;
  plan: PlanNode;
  tally: Tally;
  /** `secrets`: the values of the request's secrets, sealed (sealed-secrets.ts of wire). */
  work: { kind: 'outcome'; outcome: Outcome } | { kind: 'send'; request: OutboundRequest; target: TargetLimits; secrets?: string[] | undefined };
  lease: Held;
};

/** A run the worker has claimed, and the step its last frame began with. */
type Claim = Pick<Step, 'runId' | 'claimId' | 'epoch' | 'seq' | 'versionId' | 'lease'>;

/** Nobody needs to move the run now, or not this worker. */
export type Rest = Extract<ReplyOf<'automation.runtime.run.prepare'>, { kind: 'rests' | 'not_due' | 'held' | 'refused' }> | { kind: 'released' };
export type Turn = { kind: 'step'; step: Step } | Rest;

const RUN = 'automation.runtime.run';
const VERB_PATTERN = {
  advance: `${RUN}.advance`,
  wait: `${RUN}.wait`,
  retry: `${RUN}.retry`,
  fail: `${RUN}.fail`,
  'dead-letter': `${RUN}.dead-letter`,
} as const satisfies Record<Verb, RuntimePattern>;

type AnyReply = ReplyOf<RuntimePattern>;
type Replies = (AnyReply | undefined)[];

/**
 * The worker's side of the 13 patterns: which calls make up a step, and what their answers mean. One frame a step at most: the outcome of the one in
 * hand, the verb it is judged to, and the beginning of the next; the backend may go on to a later step and answer that one.
 */
export class Conversation {
  constructor(
    private readonly client: BackendClient,
    private readonly frames: FrameBatcher,
    private readonly leases: Leases,
    private readonly plans: PlanCache,
    private readonly failPoints: FailPoints,
  ) {}

  /** Claims the run and begins the step it stands on. */
  async begin({ runId, claimId }: WakeUp, callId: number): Promise<Turn> {
    const ref = { runId, claimId };
    const askedAtMs = performance.now();
    const { replies, followed } = await this.send([
      { pattern: 'automation.runtime.run.prepare', data: { ...ref, callId, handOutId: randomUUID() } },
      { pattern: 'automation.runtime.plan.get', data: ref },
      { pattern: 'automation.runtime.attempt.create', data: ref },
      { pattern: 'automation.runtime.action.execute', data: ref },
    ]);
    const [prepared, plan, attempt, work] = replies;
    if (prepared?.kind !== 'claimed') return restOf(prepared);
    const { epoch, seq, leaseMs } = prepared;
    const lease = this.leases.hold({ ...ref, epoch, leaseMs }, askedAtMs);
    return keeping(lease, async () => {
      if (plan?.kind !== 'plan') return restOf(plan);
      return this.turnOf({ ...ref, epoch, seq, lease, versionId: plan.versionId }, [attempt, work], followed);
    });
  }

  /** Records what the step came to and begins the next one, unless the worker is stopping: then the run is given back in the same frame. */
  async record(step: Step, outcome: Outcome, stopping: AbortSignal): Promise<Turn> {
    return keeping(step.lease, async () => {
      const first = judge(outcome, step.plan, step.tally).verb;
      const answered = await this.close(step, outcome, first, stopping);
      const right = answered.kind === 'refused' && answered.reason === 'wrong_verb' ? answered.verb : undefined;
      return right !== undefined && right !== first ? this.close(step, outcome, right, stopping) : answered;
    });
  }

  private async close(step: Step, outcome: Outcome, verb: Verb, stopping: AbortSignal): Promise<Turn> {
    const { runId, claimId, epoch, seq, n } = step;
    const ref = { runId, claimId };
    const at = { ...ref, epoch, seq };
    const isStopping = stopping.aborted;
    const items: FrameItem[] = [
      { pattern: 'automation.runtime.attempt.update', data: { ...at, n, outcome } },
      { pattern: VERB_PATTERN[verb], data: at },
    ];
    if (verb === 'advance' && isStopping) items.push({ pattern: VERB_PATTERN.wait, data: { ...ref, release: 'stopping' } });
    if (verb === 'advance' && !isStopping) {
      items.push({ pattern: 'automation.runtime.attempt.create', data: ref }, { pattern: 'automation.runtime.action.execute', data: ref });
    }
    this.failPoints.reach('worker.before-record');
    const { replies, followed } = await this.send(items);
    const [recorded, closed, attempt, work] = replies;
    if (recorded?.kind !== 'recorded') return restOf(recorded);
    if (closed?.kind !== 'advanced') return this.comeToRest(at, closed);
    return isStopping ? restOf(attempt) : this.turnOf(step, [attempt, work], followed);
  }

  /** The step in hand now: the one that was begun, or the one the backend has gone on to. `followed`: how the last one before it was closed, and its beginning. */
  private async turnOf(at: Claim, [attempt, work]: Replies, followed?: Replies): Promise<Turn> {
    if (!followed) return this.stepOf(at, attempt, work);
    const [closed, laterAttempt, laterWork] = followed;
    return closed?.kind === 'advanced' ? this.stepOf(at, laterAttempt, laterWork) : this.comeToRest(at, closed);
  }

  private async comeToRest({ runId, claimId, epoch, seq }: Pick<Step, 'runId' | 'claimId' | 'epoch' | 'seq'>, closed: AnyReply | undefined): Promise<Rest> {
    const rest = restOf(closed);
    if (rest.kind === 'rests' && (rest.state === 'failed' || rest.state === 'dead_lettered')) await this.notify({ runId, claimId, epoch, seq });
    return rest;
  }

  /** Asks for the notice at once; what is lost here the backend sends by itself. */
  private async notify(at: { runId: string; claimId: string; epoch: number; seq: number }): Promise<void> {
    await this.client.call(`${RUN}.notify-failed`, at, { timeoutMs: 5_000 }).catch(() => undefined);
  }

  private async stepOf({ runId, claimId, epoch, versionId, lease }: Claim, attempt: AnyReply | undefined, work: AnyReply | undefined): Promise<Turn> {
    if (attempt?.kind !== 'attempt') return restOf(attempt);
    const { seq, n, node, tally } = attempt;
    if (work?.kind !== 'outcome' && work?.kind !== 'send') return restOf(work);
    if (!this.plans.has(versionId)) {
      const answer = await this.client.call('automation.runtime.plan.get', { runId, claimId, epoch, seq, nodes: true });
      if (answer.kind !== 'plan' || !answer.plan) return restOf(answer);
      this.plans.keep(answer.plan);
    }
    return { kind: 'step', step: { runId, claimId, epoch, versionId, seq, n, node, tally, plan: this.plans.node(versionId, node), work, lease } };
  }

  /** The items of one run, in the same frame. One that threw at the backend is thrown here: what happened is unknown. */
  private async send(items: FrameItem[]): Promise<{ replies: Replies; followed?: Replies }> {
    const { replies, followed } = await this.frames.send(items);
    return { replies: replies.map(replyOf), ...(followed && { followed: followed.map(replyOf) }) };
  }
}

function replyOf(one: RunAnswer['replies'][number]): AnyReply {
  if ('error' in one) throw new RpcFault(FRAME_PATTERN, one.error.code, one.error.detail);
  return one.reply as unknown as AnyReply;
}

/** Holds the lease only while a step is in hand: whatever else comes of `work`, it is let go. */
async function keeping(lease: Held, work: () => Promise<Turn>): Promise<Turn> {
  let turn: Turn | undefined;
  try {
    turn = await work();
    return turn;
  } finally {
    if (turn?.kind !== 'step') lease.letGo();
  }
}

function restOf(answer: AnyReply | undefined): Rest {
  switch (answer?.kind) {
    case 'refused':
      // The claim still holds, and only who has lost track of its run is told so: the hand-out begins anew, and `prepare` says where the run stands.
      if (answer.reason === 'stale_seq') throw new Error('The run has gone on to another step than the one in hand');
      return answer;
    case 'rests':
    case 'held':
    case 'not_due':
      return answer;
    default:
      throw new Error(`The backend answered ${answer?.kind ?? 'nothing'} where a run should have come to rest`);
  }
}
