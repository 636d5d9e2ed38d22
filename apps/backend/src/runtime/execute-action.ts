import { hash } from 'node:crypto';
import type { Json } from '@onward/contracts/json';
import { failed, type Outcome } from '@onward/contracts/outcome';
import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import type { TargetLimits } from '@onward/contracts/targets';
import { dueTime } from '@onward/workflow-graph/due-time';
import { isTemplate, type PerformedNodeType, waitConfigSchema } from '@onward/workflow-graph/graph';
import type { Action, ActionResult } from '../actions/action.js';
import { storableJson } from '../database/storable-json.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { FrozenRequest } from '../secrets/frozen-request.js';
import { type Entry, enterTarget, limitsOf } from '../targets/enter-target.js';
import { fill, TemplateError } from '../templates/fill.js';
import type { Version } from '../workflows/read-version.js';
import { attemptsOf, changeRun, type Checkpoint, placeOf, refused, rests, type StepRef, storedOf, writeAttempt } from './checkpoint.js';
import { closeStep } from './close-step.js';
import { outcomeOf, tallyBefore, withOutcome } from './outcomes.js';
import { depthOf, readScope } from './read-scope.js';
import type { RuntimeKit } from './runtime-kit.js';
import type { Scope } from './scope.js';
import { sealHandOver, type Sealed } from './seal-hand-over.js';

type Request = RequestOf<'automation.runtime.action.execute'> & StepRef;
type Reply = ReplyOf<'automation.runtime.action.execute'>;

/**
 * Performs the step in hand as far as the backend owns it. An action whose effect is in Postgres commits it together with its outcome,
 * so it happens exactly once; an outbound request is frozen and handed over with its intent (`sending`), unless its target is blocked: then
 * nothing is frozen or spent and the run rests until its turn; a wait is given its due time.
 * A second entry answers what was recorded. An action that throws is undone to where it began and the call fails as `internal`.
 */
export async function executeAction(checkpoint: Checkpoint, request: Request, kit: RuntimeKit): Promise<Reply> {
  const place = placeOf(checkpoint, request);
  if (place !== 'live' && place !== 'repeat') return refused(place);
  if (checkpoint.run.state !== 'running') return rests(checkpoint);
  const attempts = await attemptsOf(checkpoint, request.seq);
  const attempt = attempts.find(({ n }) => n === (request.n ?? checkpoint.run.n));
  if (!attempt) return refused('no_attempt');
  const known = outcomeOf(attempt);
  if (known) return { kind: 'outcome', outcome: known };
  if (place !== 'live') return refused('stale_seq');

  const version = await checkpoint.group.reads.version(kit.versions, checkpoint.run.versionId);
  const record = (outcome: Outcome, input: Json): Reply => {
    writeAttempt(checkpoint, { ...withOutcome(attempt, outcome, version.planNode(attempt.node), tallyBefore(attempts, attempt.n), checkpoint.now), input });
    return { kind: 'outcome', outcome };
  };
  if (attempt.status === 'sending') {
    const frozen = await frozenRequest(checkpoint, attempt);
    if (!frozen) throw new Error(`The request of step ${attempt.seq} of run ${attempt.runId} is gone`);
    const sealed = await sealHandOver(checkpoint, frozen, attempt, kit.settings);
    if (sealed.kind === 'failed') return record(sealed, attempt.input);
    return handOver(frozen, await readLimits(checkpoint, originOf(frozen)), sealed);
  }
  const result = await perform(checkpoint, version, attempt, kit);
  const input = result.input ?? null;
  if (result.kind === 'send') {
    const frozen = await frozenRequest(checkpoint, attempt);
    // Before the target is entered: a step that fails by its secrets must not be the one that probes it.
    const sealed = await sealHandOver(checkpoint, frozen ?? result.request, attempt, kit.settings);
    if (sealed.kind === 'failed') return record(sealed, input);
    const origin = originOf(frozen ?? result.request);
    const entry = await enter(checkpoint, origin, kit);
    if (entry.kind === 'blocked') return park(checkpoint, version, { ...attempt, input }, { origin, ...entry }, kit);
    const request = frozen ?? freeze(checkpoint, attempt, result.request);
    writeAttempt(checkpoint, { ...attempt, status: 'sending', epoch: checkpoint.run.epoch, input });
    return handOver(request, entry.limits, sealed);
  }
  const { outcome } = result;
  // The key stands on the run from now on, so that what resolves it finds it even before the run rests.
  if (outcome.kind === 'suspended') changeRun(checkpoint, { waitKey: outcome.key, resolution: null });
  return record(outcome, input);
}

/** A finished request without its list of secrets, what is to be kept to at its target, and the values of its secrets, sealed. */
function handOver({ secrets: _placeholders, ...request }: FrozenRequest, target: TargetLimits, { secrets }: Sealed): Reply {
  return { kind: 'send', request, target, ...(secrets && { secrets }) };
}

/** No outcome says more of why it was not sent (contracts/outcome.ts). */
const MAX_WHY = 500;

/** The run rests until its target's turn; the attempt is as if it had not been begun, and the next claim opens it again under the same n. */
async function park(
  checkpoint: Checkpoint,
  version: Version,
  attempt: Attempt,
  { origin, until, ...blocked }: { origin: string; until: Date | null; why: string },
  kit: RuntimeKit,
): Promise<Reply> {
  const attempts = await attemptsOf(checkpoint, attempt.seq);
  const why = blocked.why.slice(0, MAX_WHY);
  const outcome: Outcome = { kind: 'not_sent', why };
  const recorded = withOutcome(attempt, outcome, version.planNode(attempt.node), tallyBefore(attempts, attempt.n), checkpoint.now);
  const parked: Attempt = { ...recorded, output: { why, origin, until: until?.toISOString() ?? null } };
  writeAttempt(checkpoint, parked);
  await closeStep(checkpoint, version, parked, kit);
  return rests(checkpoint);
}

/** Most targets are met well, and what is known of them is only read; in company, where it was read before, not even that, and it is checked before the commit. */
async function enter(checkpoint: Checkpoint, origin: string, { targets }: RuntimeKit): Promise<Entry> {
  const known = checkpoint.group.isShared ? targets.get(origin) : undefined;
  if (known) {
    checkpoint.met.push(known);
    return { kind: 'free', limits: known };
  }
  const target = await checkpoint.group.reads.target(origin);
  targets.note(origin, target);
  return target?.state === 'closed' ? { kind: 'free', limits: limitsOf(target) } : enterTarget(checkpoint.tx, origin, checkpoint.run.id);
}

/** For a request that is handed over a second time. */
async function readLimits({ group }: Checkpoint, origin: string): Promise<TargetLimits> {
  const target = await group.reads.target(origin);
  return target ? limitsOf(target) : { origin, ratePerSecond: null, maxConcurrent: null, breakerNo: 0 };
}

function originOf({ url }: FrozenRequest): string {
  return new URL(url).origin;
}

type Performer = (checkpoint: Checkpoint, version: Version, attempt: Attempt, config: Record<string, Json>, kit: RuntimeKit) => Promise<ActionResult>;

/** How each type of node that acts or waits is performed; a type of NODE_TYPES without a line here does not compile. */
const PERFORMERS = {
  action: performAction,
  wait: (checkpoint, _version, _attempt, config, kit) => performWait(checkpoint, config, kit),
} as const satisfies Record<PerformedNodeType, Performer>;

async function perform(checkpoint: Checkpoint, version: Version, attempt: Attempt, kit: RuntimeKit): Promise<ActionResult> {
  const node = version.compiled.node(attempt.node);
  if (!node || !Object.hasOwn(PERFORMERS, node.type))
    return { kind: 'outcome', outcome: failed('unknown_node', `"${attempt.node}" is not a node that can be performed`) };
  return PERFORMERS[node.type as PerformedNodeType](checkpoint, version, attempt, node.config, kit);
}

/** For who fills no text. */
const NOTHING: Scope = { contact: null, event: null, context: {}, steps: {}, run: {}, workflow: {} };

const configs = new WeakMap<object, ReturnType<Action<unknown>['config']['safeParse']>>();

/** The configuration of a node of a published version never changes, and is read once. */
function readConfig(action: Action<unknown>, nodeConfig: Record<string, Json>) {
  const read = configs.get(nodeConfig) ?? action.config.safeParse(nodeConfig['with'] ?? {});
  configs.set(nodeConfig, read);
  return read;
}

async function performAction(
  checkpoint: Checkpoint,
  version: Version,
  attempt: Attempt,
  nodeConfig: Record<string, Json>,
  kit: RuntimeKit,
): Promise<ActionResult> {
  const named = nodeConfig['action'];
  const name = typeof named === 'string' ? named : '';
  const action = kit.actions.get(name);
  if (!action) return performUnknown(checkpoint, version, attempt.node, name, kit);
  const config = readConfig(action, nodeConfig);
  if (!config.success) {
    const [issue] = config.error.issues;
    return {
      kind: 'outcome',
      outcome: failed('config_invalid', `${name} at "${attempt.node}": ${issue?.path.join('.') || 'config'}: ${issue?.message ?? 'not valid'}`),
    };
  }
  const { id: runId, workflowId, contactId } = checkpoint.run;
  if (action.needsContact && contactId === null) return { kind: 'outcome', outcome: failed('contact_missing', `${name} needs a contact and the run has none`) };
  const isRead = version.fillsTexts(attempt.node) || action.readsOnlyForTexts?.(config.data) !== true;
  const outputs = version.readsOutputs(attempt.node) || action.readsTemplates === true;
  const { scope, contact } = isRead ? await readScope(checkpoint, { outputs }) : { scope: NOTHING, contact: null };
  if (action.needsContact && isRead && !contact) return { kind: 'outcome', outcome: failed('contact_deleted', 'The contact was deleted') };
  kit.failPoints.reach('action.before-effect');
  if (action.executeMany) checkpoint.hasActed = true;
  // It may change the contact.
  checkpoint.contact = undefined;
  const result = await checkpoint.group.perform(action, {
    get tx() {
      return checkpoint.tx;
    },
    runId,
    seq: attempt.seq,
    n: attempt.n,
    node: attempt.node,
    workflowId,
    config: config.data,
    contactId,
    contact,
    scope,
    now: checkpoint.now,
    depth: (await depthOf(checkpoint)) + 1,
  });
  kit.failPoints.reach('action.after-effect');
  return result;
}

/** A wait's outcome is its due time; texts in its configuration are filled first, and a value that is wrong only now ends the run. */
async function performWait(checkpoint: Checkpoint, config: Record<string, Json>, kit: RuntimeKit): Promise<ActionResult> {
  const hasTemplates = Object.values(config).some((value) => typeof value === 'string' && isTemplate(value));
  let filled: Record<string, Json>;
  try {
    filled = hasTemplates ? fillTexts(config, (await readScope(checkpoint, { outputs: true })).scope) : config;
  } catch (error) {
    if (error instanceof TemplateError) return { kind: 'outcome', outcome: failed('template_error', error.message) };
    throw error;
  }
  const parsed = waitConfigSchema.safeParse(filled);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const text = `The wait cannot be read: ${issue?.path.join('.') || 'config'}: ${issue?.message ?? 'not valid'}`;
    return { kind: 'outcome', outcome: failed('value_invalid', text), input: filled };
  }
  const due = dueTime(parsed.data, checkpoint.now, { minimumWaitMs: kit.settings.minimumWaitMs });
  if (due.kind === 'invalid') return { kind: 'outcome', outcome: failed('value_invalid', `The wait cannot be kept: ${due.reason}`), input: filled };
  const outcome: Outcome = { kind: 'wait', dueAt: due.dueAt.toISOString(), why: 'waits as it was told to' };
  return { kind: 'outcome', outcome, input: filled };
}

function fillTexts(config: Record<string, Json>, scope: Scope): Record<string, Json> {
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => {
      if (typeof value !== 'string' || !isTemplate(value)) return [key, value];
      const text = fill(value, scope, 'text').trim();
      return [key, /^\d+(\.\d+)?$/.test(text) ? Number(text) : text];
    }),
  );
}

/** An action this version does not know is passed like a node of an unknown type: along its first edge, never silently. */
function performUnknown(checkpoint: Checkpoint, version: Version, node: string, name: string, kit: RuntimeKit): ActionResult {
  const way = version.compiled.firstEdgeFrom(node);
  if (!way || kit.settings.onUnknownNode === 'fail') {
    return { kind: 'outcome', outcome: failed('unknown_action', `The action "${name}" of "${node}" is not known to this version`) };
  }
  kit.actions.noteUnknown([{ runId: checkpoint.run.id, node, type: name }]);
  changeRun(checkpoint, { unknownNodes: checkpoint.run.unknownNodes + 1 });
  return { kind: 'outcome', outcome: { kind: 'done', output: null, port: way.port, mark: 'unknown_node' } };
}

/** Keeps the request with the step: from now on it is the one that is sent, whatever a later attempt would make of it. */
function freeze(checkpoint: Checkpoint, { runId, seq }: Attempt, asked: FrozenRequest): FrozenRequest {
  const request = JSON.parse(storableJson(asked)) as FrozenRequest;
  checkpoint.frozen.push({
    runId,
    seq,
    request,
    idempotencyKey: request.headers['idempotency-key'] ?? '',
    bodyHash: hash('sha256', request.body ?? '', 'buffer'),
  });
  return request;
}

/** A step that had no attempt when the run was locked has frozen nothing. */
async function frozenRequest(checkpoint: Checkpoint, { runId, seq }: Attempt): Promise<FrozenRequest | null> {
  const stored = await storedOf(checkpoint, seq);
  return stored.length === 0 ? null : checkpoint.group.reads.frozen(runId, seq);
}
