import type { Json } from '@onward/contracts/json';
import type { StepContact } from '../actions/action.js';
import type { Tx } from '../database/sql.js';
import type { RunContext } from '../runs/run-context.entity.js';
import type { Checkpoint } from './checkpoint.js';
import { type ReadContact, readContacts } from './read-contacts.js';
import type { Scope } from './scope.js';

/** What a run was started with, which never changes; null when its row is gone, which only an edit by hand can do. */
export async function contextOf(checkpoint: Checkpoint): Promise<RunContext | null> {
  checkpoint.context ??= await checkpoint.group.reads.context(checkpoint.run.id);
  return checkpoint.context;
}

/** Runs between an outside cause and this one. */
export async function depthOf(checkpoint: Checkpoint): Promise<number> {
  return ((await contextOf(checkpoint)) ?? GONE).depth;
}

/** Stands for a context that is gone, so that a run can still come to an end. plan.get has refused it every action before. */
const GONE: RunContext = { trigger: 'manual', event: null, contact: null, depth: 0, startedBy: 'unknown' };

/** The contact as it is now, or null when it is gone or there is none. */
export async function readContact(tx: Tx, contactId: string | null): Promise<ReadContact | null> {
  return contactId === null ? null : ((await readContacts(tx, [contactId])).get(contactId) ?? null);
}

/**
 * What conditions and templates of a run may look at: the contact read live, the event, the context as it was at the start, and, where
 * `outputs` are asked for, the output of the latest visit to each node, what this checkpoint recorded included. They grow with the run, so
 * they are read only for texts and conditions that look at steps.
 */
export async function readScope(checkpoint: Checkpoint, { outputs }: { outputs: boolean }): Promise<{ scope: Scope; contact: StepContact | null }> {
  const { run, workflow, group } = checkpoint;
  const { reads } = group;
  const [started, contact, steps] = await Promise.all([
    contextOf(checkpoint),
    run.contactId === null || checkpoint.contact !== undefined ? (checkpoint.contact ?? null) : reads.contact(run.contactId),
    outputs ? readOutputs(checkpoint) : {},
  ]);
  const context = started ?? GONE;
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
    steps,
    run: { id: run.id, startedAt: run.createdAt.toISOString(), seq: run.seq },
    workflow: { id: run.workflowId, name: workflow.name },
  };
  return { scope, contact };
}

async function readOutputs({ group, run, written }: Checkpoint): Promise<Scope['steps']> {
  const outputs = new Map(Object.entries((await group.reads.outputs(run.id)) ?? {}));
  for (const { node, output, status } of written.values()) if (status === 'done' && output !== null) outputs.set(node, output);
  return Object.fromEntries(outputs);
}
