import { failed } from '@onward/contracts/outcome';
import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import { rows } from '../database/sql.js';
import { attemptsOf, type Checkpoint, placeOf, refused, rests, type StepRef } from './checkpoint.js';
import { failHere } from './pass-nodes.js';
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
  const { run, tx } = checkpoint;
  const version = await kit.versions.get(tx, run.versionId);
  if (run.contactId !== null) {
    const [contact] = await rows(tx, 'SELECT 1 FROM contacts WHERE id = $1', [run.contactId]);
    if (!contact) {
      await attemptsOf(checkpoint, run.seq);
      failHere(checkpoint, version, failed('contact_deleted', `The contact ${run.contactId} was deleted after the run had been started`).failure, kit);
      return rests(checkpoint);
    }
  }
  return { kind: 'plan', versionId: run.versionId, ...(request.nodes ? { plan: version.plan } : {}) };
}
