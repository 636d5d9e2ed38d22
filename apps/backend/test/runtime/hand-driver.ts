import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FrameItem } from '@onward/contracts/frame';
import type { OutboundRequest } from '@onward/contracts/outbound';
import { failed, type Outcome } from '@onward/contracts/outcome';
import type { AttemptReply, ReplyOf, RequestOf, RuntimePattern, Verb } from '@onward/contracts/patterns';
import type { MessageResult } from '@onward/contracts/mail';
import type { Plan } from '@onward/contracts/plan';
import type { MailJob } from '@onward/contracts/queues';
import { callFrame } from '@onward/wire/call-frame';
import type { BackendClient } from '@onward/wire/client';
import { RpcFault, RpcTimeout } from '@onward/wire/faults';
import { judge } from '@onward/workflow-graph/judge';

/** What is about to be asked, and of which step: a pattern alone, or one of the two usual frames. */
export type Asking = RuntimePattern | 'mail.message.begin' | 'mail.message.end' | 'begin frame' | 'record frame';
export type Watch = (asking: Asking, node: string) => void;

export type WakeUpAt = { runId: string; claimId: string; node: string };
export type HandOut = { callId: number; handOutId: string };
export type Claimed = { runId: string; claimId: string; epoch: number; seq: number; node: string };
type Work = Extract<ReplyOf<'automation.runtime.action.execute'>, { kind: 'outcome' | 'send' }>;
type Step = Claimed & { attempt: AttemptReply; work: Work };
type Answered = ReplyOf<RuntimePattern>;
export type Rest = Exclude<Answered, { kind: 'claimed' | 'plan' | 'attempt' | 'outcome' | 'send' | 'recorded' | 'advanced' }>;
type Turn = { kind: 'step'; step: Step } | Rest;

const RUN = 'automation.runtime.run';
const ATTEMPT = 'automation.runtime.attempt';
const PLAN_GET = 'automation.runtime.plan.get';
const EXECUTE = 'automation.runtime.action.execute';

type Manner = 'alone' | 'frames';
type Options = {
  manner?: Manner;
  watch?: Watch;
  /** The node at which, instead of the advance, the run is put onto its end and `run.succeed` is asked for. */
  endsByHand?: { node: string; place(runId: string): Promise<void> };
};

/**
 * Drives runs as a worker does, with every pattern called alone, or in a worker's two usual frames. A request is really sent. What throws
 * leaves the hand-out where it is, as in a worker: the job is handed out again.
 */
export class HandDriver {
  constructor(
    private readonly client: Pick<BackendClient, 'call'>,
    private readonly options: Options = {},
  ) {}

  async handOut(wakeUp: WakeUpAt, handOut: HandOut): Promise<Rest> {
    if (this.options.manner === 'frames') return this.goOn(await this.beginInFrame(wakeUp, handOut));
    const claimed = await this.claim(wakeUp, handOut);
    return 'epoch' in claimed ? this.finish(claimed) : claimed;
  }

  async claim({ node, ...ref }: WakeUpAt, handOut: HandOut): Promise<Claimed | Rest> {
    const prepared = await this.ask(`${RUN}.prepare`, { ...ref, ...handOut }, node);
    return prepared.kind === 'claimed' ? { ...ref, epoch: prepared.epoch, seq: prepared.seq, node: prepared.node } : (prepared as Rest);
  }

  /** Goes on from a claim until the run rests or is somebody else's. */
  async finish(claimed: Claimed): Promise<Rest> {
    if (claimed.node === 'finish') return this.succeed(claimed);
    const plan = await this.ask(PLAN_GET, ref(claimed), claimed.node);
    return plan.kind === 'plan' ? this.goOn(await this.begin(claimed)) : (plan as Rest);
  }

  private async goOn(turn: Turn): Promise<Rest> {
    let next = turn;
    while (next.kind === 'step') next = await this.record(next.step, await perform(next.step.work));
    return next;
  }

  private async begin(at: Claimed): Promise<Turn> {
    const attempt = await this.ask(`${ATTEMPT}.create`, ref(at), at.node);
    if (attempt.kind !== 'attempt') return attempt as Rest;
    const latest = await this.ask(`${ATTEMPT}.latest`, ref(at), at.node);
    if (latest.kind !== 'attempt') return latest as Rest;
    const work = await this.ask(EXECUTE, { ...ref(at), n: attempt.n }, at.node);
    return work.kind === 'outcome' || work.kind === 'send' ? { kind: 'step', step: { ...at, attempt: latest, work } } : (work as Rest);
  }

  private async record(step: Step, outcome: Outcome): Promise<Turn> {
    if (this.options.manner === 'frames') return this.recordInFrame(step, outcome);
    const recorded = await this.ask(`${ATTEMPT}.update`, { ...ref(step), n: step.attempt.n, outcome }, step.node);
    if (recorded.kind !== 'recorded') return recorded as Rest;
    if (recorded.verb === 'advance' && this.options.endsByHand?.node === step.node) {
      await this.options.endsByHand.place(step.runId);
      return this.succeed({ ...step, seq: step.seq + 1, node: 'finish' });
    }
    const closed = await this.ask(`${RUN}.${recorded.verb}`, ref(step), step.node);
    if (closed.kind === 'advanced') return this.begin({ ...step, seq: closed.seq, node: closed.node });
    return this.rested(step, closed as Rest);
  }

  private succeed(at: Claimed): Promise<Rest> {
    return this.ask(`${RUN}.succeed`, ref(at), at.node);
  }

  private async rested(at: Claimed, rest: Rest): Promise<Rest> {
    const hasFailed = rest.kind === 'rests' && (rest.state === 'failed' || rest.state === 'dead_lettered');
    if (!hasFailed) return rest;
    const notified = await this.ask(`${RUN}.notify-failed`, ref(at), at.node);
    return notified.kind === 'refused' ? notified : rest;
  }

  private ask<P extends RuntimePattern>(pattern: P, request: RequestOf<P>, node: string): Promise<ReplyOf<P>> {
    this.options.watch?.(pattern, node);
    return this.client.call(pattern, request as never) as unknown as Promise<ReplyOf<P>>;
  }

  private async beginInFrame({ node, ...own }: WakeUpAt, handOut: HandOut): Promise<Turn> {
    const [prepared, plan, attempt, work] = await this.frame('begin frame', node, [
      { pattern: `${RUN}.prepare`, data: { ...own, ...handOut } },
      { pattern: PLAN_GET, data: { ...own, nodes: true } },
      { pattern: `${ATTEMPT}.create`, data: own },
      { pattern: EXECUTE, data: own },
    ]);
    if (prepared?.kind !== 'claimed') return prepared as Rest;
    if (plan?.kind !== 'plan') return plan as Rest;
    this.plan = plan.plan;
    return stepOf({ ...own, epoch: prepared.epoch, seq: prepared.seq, node: prepared.node }, attempt, work);
  }

  private plan: Plan | undefined;

  private async recordInFrame(step: Step, outcome: Outcome): Promise<Turn> {
    const node = this.plan?.nodes[step.node];
    if (!node) throw new Error(`The plan has no node ${step.node}`);
    const { verb } = judge(outcome, node, step.attempt.tally);
    const own = { runId: step.runId, claimId: step.claimId };
    const items: FrameItem[] = [
      { pattern: `${ATTEMPT}.update`, data: { ...ref(step), n: step.attempt.n, outcome } },
      { pattern: `${RUN}.${verb satisfies Verb}`, data: ref(step) },
    ];
    if (verb === 'advance') items.push({ pattern: `${ATTEMPT}.create`, data: own }, { pattern: EXECUTE, data: own });
    const [recorded, closed, attempt, work] = await this.frame('record frame', step.node, items);
    if (recorded?.kind !== 'recorded') return recorded as Rest;
    if (closed?.kind === 'advanced') return stepOf({ ...step, seq: closed.seq, node: closed.node }, attempt, work);
    return this.rested(step, closed as Rest);
  }

  private async frame(asking: Asking, node: string, items: FrameItem[]): Promise<(Answered | undefined)[]> {
    this.options.watch?.(asking, node);
    const answer = await callFrame(this.client, { v: 1, runs: [{ items }] });
    return (answer.runs[0]?.replies ?? []).map((one) => {
      if ('error' in one) throw new RpcFault(asking, one.error.code, one.error.detail);
      return one.reply as unknown as Answered;
    });
  }
}

function ref({ runId, claimId, epoch, seq }: Claimed) {
  return { runId, claimId, epoch, seq };
}

function stepOf(at: Claimed, attempt: Answered | undefined, work: Answered | undefined): Turn {
  if (attempt?.kind !== 'attempt') return attempt as Rest;
  if (work?.kind !== 'outcome' && work?.kind !== 'send') return work as Rest;
  return { kind: 'step', step: { ...at, attempt, work } };
}

async function perform(work: Work): Promise<Outcome> {
  if (work.kind === 'outcome') return work.outcome;
  const { url, method, headers, body }: OutboundRequest = work.request;
  const { status } = await fetch(url, { method, headers, ...(body === null ? {} : { body }) });
  if (status >= 500) return failed('http_retryable', `answered ${status}`);
  return status >= 400 ? failed('http_permanent', `answered ${status}`) : { kind: 'done', output: { status } };
}

/** Delivers mail as the gateway does; `sends` is what the mail server would have seen. */
export class HandGateway {
  readonly sends: { messageId: string; header: string }[] = [];

  constructor(
    private readonly client: Pick<BackendClient, 'call'>,
    private readonly watch: Watch = () => undefined,
    private readonly announce: (result: MessageResult) => Promise<unknown> = async () => undefined,
    /** Tries that the mail server refuses for now, before it takes one. */
    private refusals = 0,
  ) {}

  async deliver(job: MailJob): Promise<string> {
    this.watch('mail.message.begin', 'greet');
    const begun = await this.client.call('mail.message.begin', { ...job, callId: randomUUID() });
    if (begun.kind !== 'send') return begun.kind;
    this.watch('mail.message.end', 'greet');
    const isRefused = this.refusals > 0;
    if (isRefused) this.refusals -= 1;
    else this.sends.push({ messageId: job.messageId, header: begun.message.messageIdHeader });
    const result: MessageResult = {
      ...job,
      result: isRefused ? failed('smtp_retryable', '451 later') : { kind: 'sent', response: '250 taken', at: new Date().toISOString() },
    };
    try {
      return (await this.client.call('mail.message.end', result)).kind;
    } catch (error) {
      if (!(error instanceof RpcTimeout)) throw error;
      return 'unanswered';
    } finally {
      await this.announce(result);
    }
  }
}

export type Received = { path: string; key: string; body: string; status: number };

/** A target that records what it gets. `/503/<anything>` answers the first request of that path 503 and later ones 200; `/always-503/<anything>` never does. */
export async function startTarget() {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const path = request.url ?? '';
      const [, always, refusal] = /^\/(always-)?(\d+)\//.exec(path) ?? [];
      const isRefused = refusal !== undefined && (always !== undefined || !received.some((one) => one.path === path));
      const status = isRefused ? Number(refusal) : 200;
      received.push({ path, key: String(request.headers['idempotency-key']), body: Buffer.concat(chunks).toString(), status });
      response.writeHead(status).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requestsOf: (runId: string) => received.filter(({ path }) => path.endsWith(runId)),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
export type Target = Awaited<ReturnType<typeof startTarget>>;
