import type { FrameItem } from '@onward/contracts/frame';
import type { RuntimeReply } from '@onward/contracts/patterns';
import { type Checkpoint, currentAttempt, type StepRef } from './checkpoint.js';
import type { RuntimeKit } from './runtime-kit.js';

/**
 * After the items of a frame the backend may go on with the steps that follow, where the worker has asked for it and would do no more than ask
 * for the next: while a step's outcome came from the backend itself and leads on. Each step is a checkpoint of its own, as if the worker had
 * sent it; it only saves the way there and back. A step that brings the run to rest is closed within its own checkpoint: nothing is left then that
 * a commit of its own could keep.
 */

/** No step is begun later than this after the frame came, in ms. */
const GOES_ON_FOR_MS = 500;

/** How far the runs of a frame may go on. They are answered together, so none goes on once one of them waits for its worker, or once nobody waits for the answer. */
export class Pace {
  private readonly lastStartMs = performance.now() + GOES_ON_FOR_MS;
  private isAwaited = false;

  /** `steps`: as many may follow; `isAsked`: does somebody still wait for the answer? */
  constructor(
    private readonly steps: number,
    private readonly isAsked: () => boolean,
  ) {}

  /** Has the worker asked the backend to go on by itself? */
  get goesOn(): boolean {
    return this.steps > 0;
  }

  /** May a run begin its nth step of those that follow? */
  allows(nth: number): boolean {
    return nth <= this.steps && !this.isAwaited && performance.now() < this.lastStartMs && this.isAsked();
  }

  /** To be told what each run came to. */
  note(answers: readonly Answer[]): void {
    this.isAwaited ||= isWorkersTurn(answers);
  }
}

type Answer = { reply: RuntimeReply } | { error: unknown };

/** The calls that lead to the step after the one that was answered; null when it is the worker's turn, or nobody's. */
export function followingItems(frameStep: FrameStep, answers: readonly Answer[]): FrameItem[] | null {
  const [attempt, work] = answers.slice(-2).map((answer) => ('reply' in answer ? answer.reply : undefined));
  if (attempt?.kind !== 'attempt' || work?.kind !== 'outcome' || work.outcome.kind !== 'done') return null;
  const { runId, claimId, epoch } = frameStep;
  return [
    { pattern: 'automation.runtime.run.advance', data: { runId, claimId, epoch, seq: attempt.seq } },
    { pattern: 'automation.runtime.attempt.create', data: { runId, claimId } },
    { pattern: 'automation.runtime.action.execute', data: { runId, claimId } },
  ];
}

/**
 * The call that closes the step in hand, where the backend itself has done it and the run comes to rest behind it: it waits, or its way leads to an end.
 * It stands where the last call stood, whose ref is given. Null where the run goes on, where it is the worker's turn, and after a failure, of which
 * the worker is told.
 */
export async function closingItem(
  checkpoint: Checkpoint,
  { runId, claimId, epoch, seq }: Record<string, unknown>,
  answers: readonly Answer[],
  kit: RuntimeKit,
): Promise<FrameItem | null> {
  const last = answers.at(-1);
  if (!last || !('reply' in last) || last.reply.kind !== 'outcome') return null;
  const attempt = await currentAttempt(checkpoint);
  const data = { runId, claimId, epoch, seq };
  if (attempt?.verb === 'wait') return { pattern: 'automation.runtime.run.wait', data };
  if (attempt?.verb !== 'advance') return null;
  const { compiled } = await checkpoint.group.reads.version(kit.versions, checkpoint.run.versionId);
  const next = compiled.edgeFrom(checkpoint.run.node, attempt.port ?? 'next');
  if (next === undefined || compiled.node(next)?.type !== 'end') return null;
  return { pattern: 'automation.runtime.run.advance', data };
}

/** Does the worker have something in hand of this run now? */
export function isWorkersTurn(answers: readonly Answer[]): boolean {
  const last = answers.at(-1);
  return last !== undefined && 'reply' in last && (last.reply.kind === 'send' || last.reply.kind === 'outcome');
}

/** The step by which a frame is known when it is sent again: the one it spoke of first, or was given. */
export type FrameStep = StepRef & { runId: string };

export function frameStepOf({ runId, claimId, epoch, seq }: Record<string, unknown>, first: Answer | undefined): FrameStep | null {
  const claimed = first && 'reply' in first && first.reply.kind === 'claimed' ? first.reply : { epoch, seq };
  if (typeof runId !== 'string' || typeof claimId !== 'string' || typeof claimed.epoch !== 'number' || typeof claimed.seq !== 'number') return null;
  return { runId, claimId, epoch: claimed.epoch, seq: claimed.seq };
}
