import type { Api } from './api.js';

export type GraphNode = { id: string; type: string; config?: Record<string, unknown> };

/** A journey that is a line: trigger, the nodes given in order, end. */
export function line(trigger: Record<string, unknown>, ...nodes: GraphNode[]) {
  const all: GraphNode[] = [{ id: 'start', type: 'trigger', config: trigger }, ...nodes, { id: 'finish', type: 'end' }];
  return { nodes: all, edges: all.slice(1).map((node, index) => ({ from: all[index]?.id ?? '', to: node.id })) };
}

export const onEvent = (event: string) => ({ type: 'event', event });
export const tag = (id: string, name: string): GraphNode => ({ id, type: 'action', config: { action: 'ADD_TAG', with: { tag: name } } });
export const wait = (id: string, duration: string): GraphNode => ({ id, type: 'wait', config: { kind: 'duration', duration } });
export const mailTo = (id: string, template: string): GraphNode => ({ id, type: 'action', config: { action: 'SEND_MAIL', with: { template } } });
export const forward = (id: string, url: string, more: Record<string, unknown> = {}): GraphNode => ({
  id,
  type: 'action',
  config: { action: 'FORWARD_REQUEST', with: { url, ...more } },
});

/** Makes and publishes a workflow; answers its id. */
export async function publish(api: Api, name: string, graph: unknown, settings: Record<string, unknown> = {}): Promise<string> {
  const made = await api.must('POST', '/workflows', { name, graph, settings });
  const id = String(made['id']);
  await api.must('POST', `/workflows/${id}/publish`);
  return id;
}

export async function makeTemplate(api: Api, name: string): Promise<void> {
  await api.must('POST', '/templates', {
    name,
    subject: 'Hello {{ contact.attributes.name }}',
    html: '<p>Hello {{ contact.attributes.name }}</p>',
    text: 'Hello',
  });
}
