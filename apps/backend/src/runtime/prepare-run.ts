import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import { failed, type Outcome } from '@onward/contracts/outcome';
import type { Run } from '../runs/run.entity.js';
import { attemptsOf, type Checkpoint, changeRun, currentAttempt, refused, rests, writeAttempt } from './checkpoint.js';
import { closeStep, isPaused } from './close-step.js';
import { endRun } from './end-run.js';
import { canMove, stateAfter } from './moves.js';
import { leaveAttempt } from './leave-attempt.js';
import { tallyBefore, withOutcome } from './outcomes.js';
import { enterNode } from './pass-nodes.js';
import { restRun } from './rest-run.js';
import type { RuntimeKit } from './runtime-kit.js';

/** A step that was lapsed or taken over this often brings its workers down, and buries its run. */
export const MAX_TAKEOVERS = 25;

type Request = Extract<RequestOf<'automation.runtime.run.prepare'>, { callId: number }>;
type Reply = ReplyOf<'automation.runtime.run.prepare'>;

/**
 * Gives out the claim. Of a resting run: when it is due, under a new epoch, and what it waited for is settled first. Of a running one:
 * to the same hand-out of the job the same epoch again; to a later one a higher epoch (a take-over); to an earlier one nothing. A job that
 * was lost and added again counts its hand-outs from one, so the number alone does not tell two of them apart: each has an id too.
 * Who holds an older epoch is refused from then on, whatever its lease says.
 */
export async function prepareRun(checkpoint: Checkpoint, { claimId, ...handOut }: Request, kit: RuntimeKit): Promise<Reply> {
  const { run } = checkpoint;
  if (run.claimId !== claimId) return refused('stale_claim');
  if (run.state === 'running') return takeOver(checkpoint, handOut, kit);
  if (!canMove(run.state, 'claim')) return rests(checkpoint);
  if (run.dueAt === null) return rests(checkpoint);
  if (isPaused(checkpoint)) {
    if (!run.isHeld) changeRun(checkpoint, { isHeld: true });
    return { kind: 'held' };
  }
  const inMs = run.dueAt.getTime() - checkpoint.now.getTime();
  if (inMs > 0) return { kind: 'not_due', dueAt: run.dueAt.toISOString(), inMs };
  return claim(checkpoint, handOut, kit);
}

type HandOut = Pick<Request, 'callId' | 'handOutId'>;

async function claim(checkpoint: Checkpoint, handOut: HandOut, kit: RuntimeKit): Promise<Reply> {
  const { run } = checkpoint;
  const { state, resolution, waitReason } = run;
  changeRun(checkpoint, {
    ...held(checkpoint, handOut, kit),
    state: stateAfter(state, 'claim'),
    epoch: run.epoch + 1,
    dueAt: null,
    wokenAt: null,
    isHeld: false,
    // Only a wait that ends here is over. A run taken back by a lapse keeps the key of the step it has begun, and what came for it.
    ...(state === 'waiting' ? { waitReason: null, waitKey: null, resolution: null } : {}),
  });
  const version = await checkpoint.group.reads.version(kit.versions, run.versionId);
  if (state === 'waiting' && waitReason !== 'target') {
    kit.failPoints.reach('wait.due');
    const attempt = await currentAttempt(checkpoint);
    if (!attempt) throw new Error(`Run ${run.id} waits at a step that was never begun`);
    const node = version.planNode(run.node);
    const outcome = resolution ?? timeOut(waitReason);
    const settled = withOutcome(attempt, outcome, node, tallyBefore(await attemptsOf(checkpoint, run.seq), attempt.n), checkpoint.now);
    writeAttempt(checkpoint, { ...settled, epoch: checkpoint.run.epoch });
    await closeStep(checkpoint, version, settled, kit);
  } else {
    // A retry, a release, a lapse or a run that waited for its target stands on a node that acts, and nothing is passed or settled; a new run
    // stands on its trigger.
    await enterNode(checkpoint, version, kit);
  }
  return claimed(checkpoint, kit);
}

/** Due without a resolution: a wait by time is over, and anything else has timed out. */
function timeOut(reason: Run['waitReason']): Outcome {
  return reason === 'time' ? { kind: 'done', output: null } : { kind: 'done', output: null, port: 'timeout' };
}

async function takeOver(checkpoint: Checkpoint, handOut: HandOut, kit: RuntimeKit): Promise<Reply> {
  const { run } = checkpoint;
  if (handOut.callId < run.callNo) return refused('lower_call');
  if (handOut.callId === run.callNo && handOut.handOutId === run.handOutId) {
    changeRun(checkpoint, held(checkpoint, handOut, kit));
    return claimed(checkpoint, kit);
  }
  const takeovers = run.takeovers + 1;
  changeRun(checkpoint, { ...held(checkpoint, handOut, kit), epoch: run.epoch + 1, takeovers });
  if (takeovers >= MAX_TAKEOVERS) {
    await leaveAttempt(checkpoint);
    buryPoison(checkpoint, kit);
  } else if (isPaused(checkpoint)) {
    restRun(checkpoint, 'release', { dueAt: checkpoint.now, isHeld: true });
    return { kind: 'held' };
  }
  return claimed(checkpoint, kit);
}

/** A claim failed by a fault of ours: counted, and once too often the run is given up where it stands. */
export async function countFailedClaim(checkpoint: Checkpoint, kit: RuntimeKit): Promise<void> {
  const takeovers = checkpoint.run.takeovers + 1;
  changeRun(checkpoint, { takeovers });
  if (takeovers < MAX_TAKEOVERS) return;
  if (checkpoint.run.state !== 'running') {
    changeRun(checkpoint, { state: stateAfter(checkpoint.run.state, 'claim'), epoch: checkpoint.run.epoch + 1, dueAt: null, leaseUntil: checkpoint.realNow });
  }
  await leaveAttempt(checkpoint);
  buryPoison(checkpoint, kit);
}

/** Gives up a run whose step was taken up again too often. */
export function buryPoison(checkpoint: Checkpoint, kit: RuntimeKit): void {
  const { failure } = failed('poison_step', `The step "${checkpoint.run.node}" was taken up ${MAX_TAKEOVERS} times and never came to an end`);
  endRun(checkpoint, { move: 'bury', failure }, kit);
}

function held(checkpoint: Checkpoint, { callId, handOutId }: HandOut, kit: RuntimeKit): Partial<Run> {
  return { callNo: callId, handOutId, leaseUntil: new Date(checkpoint.realNow.getTime() + kit.settings.leaseMs) };
}

function claimed(checkpoint: Checkpoint, kit: RuntimeKit): Reply {
  const { state, epoch, seq, node } = checkpoint.run;
  return state === 'running' ? { kind: 'claimed', epoch, seq, node, leaseMs: kit.settings.leaseMs } : rests(checkpoint);
}
