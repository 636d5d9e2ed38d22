import type { Json } from '@onward/contracts/json';
import { rows, type Tx } from '../database/sql.js';
import { readContact } from '../runtime/read-scope.js';
import type { VersionReader } from '../workflows/read-version.js';
import { type PlannedRun, recordRefusals, type Refusal, startRuns } from './start-runs.js';

/** Who is to enter: a contact by its id, its external id or its e-mail. */
export type ContactRef = { id: string } | { externalId: string } | { email: string };
export type ManualStart = { workflowId: string; contacts: readonly ContactRef[]; withoutContact: boolean; payload: Record<string, Json>; startedBy: string };
export type StartAnswer =
  | { contact: ContactRef | null; contactId: string | null; runId: string }
  | { contact: ContactRef | null; contactId: string | null; refused: string; detail: string };

/** Starts runs of an active workflow for named contacts, or one without a contact. Each is answered: started, or refused with its reason. */
export async function startManually(tx: Tx, start: ManualStart, versions: VersionReader): Promise<StartAnswer[] | null> {
  const [workflow] = await rows<{ status: string; versionId: string | null }>(
    tx,
    'SELECT status, version_id AS "versionId" FROM workflows WHERE id = $1 FOR SHARE',
    [start.workflowId],
  );
  if (!workflow) return null;
  const asked: (ContactRef | null)[] = start.withoutContact ? [null] : [...start.contacts];
  const answers: StartAnswer[] = [];
  const refusals: Refusal[] = [];
  const planned: { ref: ContactRef | null; plan: PlannedRun }[] = [];
  for (const ref of asked) {
    const contact = ref === null ? null : await readContact(tx, await findContact(tx, ref));
    const contactId = contact?.id ?? null;
    const refuse = (reason: Refusal['reason'], detail: string) => {
      answers.push({ contact: ref, contactId, refused: reason, detail });
      refusals.push({ workflowId: start.workflowId, versionId: workflow.versionId, eventId: null, contactId, reason, detail });
    };
    if (workflow.status !== 'active' || workflow.versionId === null) refuse('not_active', `The workflow is ${workflow.status}`);
    else if (ref !== null && !contact) refuse('contact_unknown', 'There is no such contact');
    else {
      const version = await versions.get(tx, workflow.versionId);
      const node = version.compiled.trigger;
      if (node === undefined) refuse('workflow_broken', 'The version has no trigger node');
      else {
        planned.push({
          ref,
          plan: {
            workflowId: start.workflowId,
            versionId: workflow.versionId,
            reentry: version.settings.reentry,
            node,
            contactId,
            eventId: null,
            context: {
              trigger: 'manual',
              event: { id: '', type: 'manual', occurredAt: new Date().toISOString(), payload: start.payload },
              contact: contact && { id: contact.id, externalId: contact.externalId, email: contact.email, attributes: contact.attributes },
              depth: 0,
              startedBy: start.startedBy,
            },
          },
        });
      }
    }
  }
  await recordRefusals(tx, refusals);
  const started = await startRuns(
    tx,
    planned.map(({ plan }) => plan),
  );
  for (const one of started) {
    const ref = planned.find(({ plan }) => plan === one.planned)?.ref ?? null;
    const { contactId } = one.planned;
    answers.push('runId' in one ? { contact: ref, contactId, runId: one.runId } : { contact: ref, contactId, refused: one.refused, detail: '' });
  }
  return answers;
}

async function findContact(tx: Tx, ref: ContactRef): Promise<string | null> {
  const [column, value] = 'id' in ref ? ['id', ref.id] : 'externalId' in ref ? ['external_id', ref.externalId] : ['email', ref.email.toLowerCase()];
  const [found] = await rows<{ id: string }>(tx, `SELECT id FROM contacts WHERE ${column} = $1 ORDER BY external_id IS NOT NULL, created_at, id LIMIT 1`, [
    value,
  ]);
  return found?.id ?? null;
}
