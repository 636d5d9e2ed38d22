import type { Json } from '@onward/contracts/json';
import type { StepContact } from '../actions/action.js';
import { rows, type Tx } from '../database/sql.js';
import type { RunContext } from '../runs/run-context.entity.js';
import type { Checkpoint } from './checkpoint.js';
import type { Scope } from './scope.js';

/** What a run was started with; null when its row is gone, which only an edit by hand can do. */
export async function readContext(tx: Tx, runId: string): Promise<RunContext | null> {
  const [found] = await rows<{ context: RunContext }>(tx, 'SELECT context FROM run_contexts WHERE run_id = $1', [runId]);
  return found?.context ?? null;
}

/** Stands for a context that is gone, so that a run can still come to an end. plan.get has refused it every action before. */
const GONE: RunContext = { trigger: 'manual', event: null, contact: null, depth: 0, startedBy: 'unknown' };

type ReadContact = StepContact & { tags: string[]; lists: string[] };

/** The contact as it is now, or null when it is gone or there is none. */
export async function readContact(tx: Tx, contactId: string | null): Promise<ReadContact | null> {
  if (contactId === null) return null;
  const [found] = await rows<ReadContact>(
    tx,
    `SELECT id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes,
            ARRAY(SELECT tag FROM contact_tags WHERE contact_id = contacts.id ORDER BY tag) AS tags,
            ARRAY(SELECT lists.name FROM list_members JOIN lists ON lists.id = list_id WHERE contact_id = contacts.id ORDER BY 1) AS lists
     FROM contacts WHERE id = $1`,
    [contactId],
  );
  return found ?? null;
}

/**
 * What conditions and templates of a run may look at: the contact read live, the event, the context as it was at the start, and the
 * output of the latest visit to each node, what this checkpoint recorded included.
 */
export async function readScope(checkpoint: Checkpoint): Promise<{ scope: Scope; contact: StepContact | null; context: RunContext }> {
  const { tx, run } = checkpoint;
  const context = (await readContext(tx, run.id)) ?? GONE;
  const contact = await readContact(tx, run.contactId);
  const [workflow] = await rows<{ name: string }>(tx, 'SELECT name FROM workflows WHERE id = $1', [run.workflowId]);
  const scope: Scope = {
    contact: contact && {
      id: contact.id,
      externalId: contact.externalId,
      email: contact.email,
      attributes: contact.attributes,
      tags: contact.tags,
      lists: contact.lists,
    },
    event: context.event && { ...context.event.payload },
    context: { contact: context.contact as Json, event: context.event as Json, startedBy: context.startedBy },
    steps: await readOutputs(checkpoint),
    run: { id: run.id, startedAt: run.createdAt.toISOString(), seq: run.seq },
    workflow: { id: run.workflowId, name: workflow?.name ?? '' },
  };
  return { scope, contact, context };
}

async function readOutputs({ tx, run, written }: Checkpoint): Promise<Scope['steps']> {
  const stored = await rows<{ node: string; output: Json }>(
    tx,
    `SELECT DISTINCT ON (node) node, output FROM attempts WHERE run_id = $1 AND status = 'done' AND output IS NOT NULL ORDER BY node, seq DESC`,
    [run.id],
  );
  const outputs = new Map(stored.map(({ node, output }) => [node, output]));
  for (const { node, output, status } of written.values()) if (status === 'done' && output !== null) outputs.set(node, output);
  return Object.fromEntries(outputs);
}
