import { type Failure, failed } from '@onward/contracts/outcome';
import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import { attemptsOf, type Checkpoint, placeOf, refused, rests, type StepRef } from './checkpoint.js';
import { failHere } from './pass-nodes.js';
import { contextOf } from './read-scope.js';
import type { RuntimeKit } from './runtime-kit.js';

type Request = RequestOf<'automation.runtime.plan.get'> & StepRef;
type Reply = ReplyOf<'automation.runtime.plan.get'>;

/**
 * The plan of the run's version, and whether everything the run was started with can still be read. A contact deleted meanwhile ends the
 * run here, before any action, and says so.
 */
export async function getPlan(checkpoint: Checkpoint, request: Request, kit: RuntimeKit): Promise<Reply> {
  const place = placeOf(checkpoint, request);
  if (place !== 'live' && place !== 'repeat') return refused(place);
  if (checkpoint.run.state !== 'running') return rests(checkpoint);
  const { run } = checkpoint;
  const version = await checkpoint.group.reads.version(kit.versions, run.versionId);
  const gone = await whatIsGone(checkpoint);
  if (gone) {
    await attemptsOf(checkpoint, run.seq);
    failHere(checkpoint, version, gone, kit);
    return rests(checkpoint);
  }
  return { kind: 'plan', versionId: run.versionId, ...(request.nodes ? { plan: version.plan } : {}) };
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
