import { type Failure, failed } from '@onward/contracts/outcome';
import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import type { Version } from '../workflows/read-version.js';
import { attemptsOf, type Checkpoint, currentAttempt, placeOf, refused, rests, type StepRef, writeAttempt } from './checkpoint.js';
import { closeStep } from './close-step.js';
import { asLeft } from './create-attempt.js';
import { failHere } from './pass-nodes.js';
import { contextOf } from './read-scope.js';
import type { RuntimeKit } from './runtime-kit.js';

type Request = RequestOf<'automation.runtime.plan.get'> & StepRef;
type Reply = ReplyOf<'automation.runtime.plan.get'>;

/**
 * The plan of the run's version, and whether everything the run was started with can still be read. A contact deleted meanwhile ends the
 * run here, before any action, and says so. What the step in hand came to before stands: it is closed by that first, and the run fails on the next one.
 */
export async function getPlan(checkpoint: Checkpoint, request: Request, kit: RuntimeKit): Promise<Reply> {
  const place = placeOf(checkpoint, request);
  if (place !== 'live' && place !== 'repeat') return refused(place);
  if (checkpoint.run.state !== 'running') return rests(checkpoint);
  const { run } = checkpoint;
  const version = await checkpoint.group.reads.version(kit.versions, run.versionId);
  const gone = await whatIsGone(checkpoint);
  if (gone && !(await isBeingSent(checkpoint))) {
    await closeBegun(checkpoint, version, kit);
    if (checkpoint.run.state === 'running') await failHere(checkpoint, version, gone, kit);
    return rests(checkpoint);
  }
  return { kind: 'plan', versionId: run.versionId, ...(request.nodes ? { plan: version.plan } : {}) };
}

/** Handed over under this very claim, by the same frame the first time it came: what it comes to is still to be told. */
async function isBeingSent(checkpoint: Checkpoint): Promise<boolean> {
  const attempt = await currentAttempt(checkpoint);
  return attempt?.status === 'sending' && attempt.epoch === checkpoint.run.epoch;
}

async function closeBegun(checkpoint: Checkpoint, version: Version, kit: RuntimeKit): Promise<void> {
  const attempt = await currentAttempt(checkpoint);
  if (!attempt) return;
  const left = asLeft(checkpoint, version, attempt, await attemptsOf(checkpoint, attempt.seq));
  if (left !== attempt) writeAttempt(checkpoint, left);
  // What was never sent came to nothing.
  if (left.status !== 'open' && left.status !== 'not_sent') await closeStep(checkpoint, version, left, kit);
}

async function whatIsGone(checkpoint: Checkpoint): Promise<Failure | null> {
  const { group, run } = checkpoint;
  const [hasContact, context] = await Promise.all([
    run.contactId === null || (checkpoint.contact === undefined ? group.reads.hasContact(run.contactId) : checkpoint.contact !== null),
    contextOf(checkpoint),
  ]);
  if (!hasContact) return failed('contact_deleted', `The contact ${run.contactId} was deleted after the run had been started`).failure;
  return context ? null : failed('context_missing', 'What the run was started with is no longer there').failure;
}
