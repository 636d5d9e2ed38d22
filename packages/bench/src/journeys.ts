/** The workflows that are measured, and the contacts that go through them. */
import type { Api } from './api.js';
import type { Query } from './query.js';

export type GraphNode = { id: string; type: string; config?: Record<string, unknown> };

/** The steps of a run in all comparisons. */
export const STEPS = 10;
const TAG = 'there';

/** A journey that is a line: the event that starts it, the nodes given in order, an end. */
export function line(event: string, nodes: readonly GraphNode[]) {
  const all: GraphNode[] = [{ id: 'start', type: 'trigger', config: { type: 'event', event } }, ...nodes, { id: 'finish', type: 'end' }];
  return { nodes: all, edges: all.slice(1).map((node, index) => ({ from: all[index]?.id ?? '', to: node.id })) };
}

/** So many actions that give a contact the tag it already has: one durable checkpoint each, and nothing else. */
export function tagSteps(count: number): GraphNode[] {
  return Array.from({ length: count }, (_, index) => ({ id: `s${index + 1}`, type: 'action', config: { action: 'ADD_TAG', with: { tag: TAG } } }));
}

export function forwardStep(id: string, url: string, more: Record<string, unknown> = {}): GraphNode {
  return { id, type: 'action', config: { action: 'FORWARD_REQUEST', with: { url, ...more } } };
}

/** Makes and publishes a workflow that starts a run for each event named so; answers its id. */
export async function publish(api: Api, event: string, nodes: readonly GraphNode[]): Promise<string> {
  const made = await api.must('POST', '/workflows', { name: event, graph: line(event, nodes), settings: { reentry: 'always' } });
  const id = String(made['id']);
  await api.must('POST', `/workflows/${id}/publish`);
  return id;
}

/** The nth contact's address. */
export const emailOf = (nth: number): string => `c${nth}@bench.example`;

/** Writes contacts 0 … count-1, each with the tag, where they are not there yet. */
export async function writeContacts(query: Query, count: number): Promise<void> {
  await query(
    `INSERT INTO contacts (id, email) SELECT gen_random_uuid(), 'c' || nth || '@bench.example' FROM generate_series(0, $1::integer - 1) AS nth ON CONFLICT DO NOTHING`,
    [count],
  );
  await query('INSERT INTO contact_tags (contact_id, tag) SELECT id, $1 FROM contacts ON CONFLICT DO NOTHING', [TAG]);
  await query('ANALYZE contacts, contact_tags');
}
