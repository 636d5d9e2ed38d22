import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { z } from 'zod';
import type { Json } from '@onward/contracts/json';
import type { ActionCatalogue, Validation } from '../src/validate-graph.js';
import { validateGraph } from '../src/validate-graph.js';

/** Graphs for the tests: the files of fixtures/, a short way to write small ones, and a generator of graphs without a defect. */

export type Sketch = {
  nodes: { id: string; type: string; config?: Record<string, Json> }[];
  edges: { id?: string; from: string; port?: string; to: string }[];
};

export function readFixture(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`./fixtures/${name}`, import.meta.url), 'utf8'));
}

export const actions = {
  ADD_TAG: { config: z.strictObject({ tag: z.string().min(1) }), needsContact: true },
  REMOVE_TAG: { config: z.strictObject({ tag: z.string().min(1) }), needsContact: true },
  SEND_MAIL: { config: z.strictObject({ template: z.string() }), needsContact: true },
  FORWARD_REQUEST: { config: z.strictObject({ url: z.string() }) },
} satisfies ActionCatalogue;

export const publish = (graph: unknown): Validation => validateGraph(graph, { actions, purpose: 'publish' });
export const saveDraft = (graph: unknown): Validation => validateGraph(graph, { actions, purpose: 'draft' });
export const codes = ({ defects }: Validation): string[] => defects.map(({ code }) => code);

export const trigger = { id: 'trigger', type: 'trigger', config: { type: 'manual' } };
export const end = { id: 'end', type: 'end' };
export const action = (id: string, extra: Record<string, Json> = {}) => ({ id, type: 'action', config: { action: 'ADD_TAG', with: { tag: id }, ...extra } });
export const wait = (id: string, duration: Json) => ({ id, type: 'wait', config: { kind: 'duration', duration } });
export const condition = (id: string, ...tests: Json[]) => ({ id, type: 'condition', config: { tests } });

/** Reads "a -> b", "c.false -> d". */
export function edges(...drawn: string[]): Sketch['edges'] {
  return drawn.map((text) => {
    const [out = '', to = ''] = text.split(' -> ');
    const [from = '', port] = out.split('.');
    return { from, ...(port === undefined ? {} : { port }), to };
  });
}

/** One node between trigger and end. */
export function around(node: Sketch['nodes'][number], ...ports: string[]): Sketch {
  return {
    nodes: [trigger, node, end],
    edges: edges(`trigger -> ${node.id}`, ...(ports.length > 0 ? ports : ['next']).map((port) => `${node.id}.${port} -> end`)),
  };
}

const PORTS: Record<string, string[]> = { action: ['next'], wait: ['next'], condition: ['true', 'false'] };

/**
 * Graphs without a defect: each port goes to a later node or the end, the node right after it is always one of its targets, so that all
 * are reached and no loop is busy; a wait may also be led back to.
 */
export const validGraph: fc.Arbitrary<Sketch> = fc
  .array(
    fc.record({ type: fc.constantFrom('action', 'wait', 'condition'), failed: fc.boolean(), picks: fc.array(fc.nat(1_000), { minLength: 2, maxLength: 2 }) }),
    {
      minLength: 1,
      maxLength: 30,
    },
  )
  .map((kinds) => {
    const idOf = (i: number) => (i < kinds.length ? `n${i}` : 'end');
    const nodes = kinds.map(({ type }, i) => {
      if (type === 'action') return action(`n${i}`);
      return type === 'wait' ? wait(`n${i}`, '2h') : condition(`n${i}`, { field: `contact.attributes.k${i % 3}`, op: 'exists' });
    });
    const drawn = kinds.flatMap(({ type, failed, picks }, i) => {
      const ports = [...(PORTS[type] ?? []), ...(type === 'action' && failed ? ['failed'] : [])];
      return ports.map((port, p) => {
        if (p === 0) return { from: idOf(i), port, to: idOf(i + 1) };
        const pick = picks[p % 2] ?? 0;
        const waits = kinds.flatMap((kind, at) => (kind.type === 'wait' ? [at] : []));
        const back = waits[pick % Math.max(1, waits.length)];
        return { from: idOf(i), port, to: pick % 3 === 0 && back !== undefined ? idOf(back) : idOf(i + 1 + (pick % (kinds.length - i))) };
      });
    });
    return { nodes: [trigger, ...nodes, end], edges: [{ from: 'trigger', to: idOf(0) }, ...drawn] };
  });
