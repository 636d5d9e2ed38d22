import { failed, type Failure } from '@onward/contracts/outcome';
import type { Json } from '@onward/contracts/json';
import { type Following, enter, follow } from '@onward/workflow-graph/interpret';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Version } from '../workflows/read-version.js';
import { attemptsOf, type Checkpoint, changeRun, writeAttempt } from './checkpoint.js';
import { endRun } from './end-run.js';
import { readScope } from './read-scope.js';
import type { RuntimeKit } from './runtime-kit.js';

/**
 * Passes the nodes that only choose the way, each recorded as a step of its own in this checkpoint, and stands the run on the next node
 * that acts or waits, or ends it. `startSeq` is the number of the first node passed.
 */

/** Leaves the node the run stands on by `port`. */
export async function leaveNode(checkpoint: Checkpoint, version: Version, port: string, kit: RuntimeKit): Promise<void> {
  const { node, seq } = checkpoint.run;
  const following = follow(version.compiled, node, port, await scopeFor(checkpoint, version, version.compiled.edgeFrom(node, port)), options(kit, seq + 1));
  if (following.passed.length === 0 && following.at.kind === 'failed' && following.at.node === node) return endStranded(checkpoint, following.at.failure, kit);
  await arrive(checkpoint, version, following, seq + 1, kit);
}

/** Begins at the node the run stands on: the trigger at the start, or wherever a replay took it up. Nothing happens on a node that acts. */
export async function enterNode(checkpoint: Checkpoint, version: Version, kit: RuntimeKit): Promise<void> {
  const { node, seq } = checkpoint.run;
  const first = version.compiled.node(node)?.type === 'trigger' ? version.compiled.edgeFrom(node, 'next') : node;
  const following = enter(version.compiled, node, await scopeFor(checkpoint, version, first), options(kit, seq));
  await arrive(checkpoint, version, following, seq, kit);
}

function options(kit: RuntimeKit, startSeq: number) {
  return { maxPasses: Math.max(0, kit.settings.maxStepsPerRun - startSeq + 1), onUnknown: kit.settings.onUnknownNode };
}

/** Reading the scope costs queries; a way that meets no condition needs none. `first`: the node it comes to, behind a trigger. */
async function scopeFor(checkpoint: Checkpoint, version: Version, first: string | undefined): Promise<unknown> {
  const type = first === undefined ? undefined : version.compiled.node(first)?.type;
  const isPlain = type === undefined || type === 'action' || type === 'wait' || type === 'end';
  return isPlain ? {} : (await readScope(checkpoint, { outputs: version.waysReadOutputs })).scope;
}

async function arrive(checkpoint: Checkpoint, version: Version, { passed, at }: Following, startSeq: number, kit: RuntimeKit): Promise<void> {
  passed.forEach((pass, index) => {
    writeAttempt(checkpoint, {
      ...blank(checkpoint, startSeq + index, pass.node, pass.type),
      status: 'done',
      verb: 'advance',
      port: pass.port,
      input: (pass.seen ?? null) as Json,
      mark: pass.mark ?? null,
      endedAt: checkpoint.now,
    });
  });
  const unknown = passed.filter(({ mark }) => mark === 'unknown_node');
  if (unknown.length > 0) {
    changeRun(checkpoint, { unknownNodes: checkpoint.run.unknownNodes + unknown.length });
    kit.actions.noteUnknown(unknown.map(({ node, type }) => ({ runId: checkpoint.run.id, node, type })));
  }
  const nextSeq = startSeq + passed.length;
  if (at.kind === 'end') {
    changeRun(checkpoint, { node: at.node, seq: nextSeq - 1, n: 1, takeovers: 0 });
    return endRun(checkpoint, { move: 'succeed' }, kit);
  }
  if (nextSeq !== checkpoint.run.seq || at.node !== checkpoint.run.node) changeRun(checkpoint, { node: at.node, seq: nextSeq, n: 1, takeovers: 0 });
  if (at.kind === 'failed') return failHere(checkpoint, version, at.failure, kit);
  if (at.kind === 'cap' || nextSeq > kit.settings.maxStepsPerRun) {
    const message = `The run reached ${kit.settings.maxStepsPerRun} steps at "${at.node}", as many as a run may take (AUTOMATIONS_MAX_STEPS_PER_RUN)`;
    await failHere(checkpoint, version, failed('step_cap', message).failure, kit);
  }
}

/**
 * Ends the run failed on the step it stands on, recorded as an attempt of that step. What an attempt of it came to stands; there the failure is only
 * noted beside it.
 */
export async function failHere(checkpoint: Checkpoint, version: Version, failure: Failure, kit: RuntimeKit): Promise<void> {
  const { node, seq, n } = checkpoint.run;
  const begun = (await attemptsOf(checkpoint, seq)).find((attempt) => attempt.n === n);
  if (begun && begun.status !== 'open' && begun.status !== 'not_sent') {
    const isLeft = begun.status === 'sending';
    writeAttempt(checkpoint, { ...begun, failure, ...(isLeft && { status: 'uncertain', endedAt: checkpoint.now }) });
  } else {
    writeAttempt(checkpoint, {
      ...(begun ?? blank(checkpoint, seq, node, version.compiled.node(node)?.type ?? 'unknown', n)),
      status: 'failed',
      verb: 'fail',
      port: null,
      failure,
      endedAt: checkpoint.now,
    });
  }
  endRun(checkpoint, { move: 'fail', failure }, kit);
}

/** The step is done and has no way out: its own record says so, and the run ends failed there. */
function endStranded(checkpoint: Checkpoint, failure: Failure, kit: RuntimeKit): void {
  const { seq, n } = checkpoint.run;
  const attempt = checkpoint.read.get(seq)?.find((candidate) => candidate.n === n);
  if (attempt) writeAttempt(checkpoint, { ...attempt, failure });
  endRun(checkpoint, { move: 'fail', failure }, kit);
}

/** A new, open attempt of a step. */
export function blank(checkpoint: Checkpoint, seq: number, node: string, nodeType: string, n = 1): Attempt {
  return {
    runId: checkpoint.run.id,
    seq,
    n,
    node,
    nodeType,
    status: 'open',
    epoch: checkpoint.run.epoch,
    port: null,
    verb: null,
    input: null,
    output: null,
    failure: null,
    warnings: null,
    mark: null,
    resolved: null,
    replayOf: null,
    startedAt: checkpoint.now,
    endedAt: null,
  };
}
