import type { FailureCode } from '@onward/contracts/errors';
import type { Failure } from '@onward/contracts/outcome';
import type { CompiledGraph, CompiledNode } from './compile-graph.js';
import { evaluateCondition, type Seen } from './condition.js';
import { conditionConfigSchema, isKnownNodeType, NODE_TYPES } from './graph.js';

export { type HistoryEntry, replayHistory, type Replayed } from './replay-history.js';

/**
 * Leads a run along the edges of its graph: past the nodes that only choose the way, up to the next one that acts, waits or ends.
 *
 * Every node passed is answered, so the checkpoint can record each. An edge that is not there is a failure naming the node, never a silent
 * success. A node of an unknown type is passed along its first edge, marked, or fails the run, as `onUnknown` says. Never throws
 * and visits at most `maxPasses` nodes, whatever the graph. Nothing is performed here and the graph is not judged.
 */

export type InterpretOptions = {
  /** So many nodes may be passed at once; what is left of the run's step cap. */
  maxPasses: number;
  onUnknown: 'advance' | 'fail';
};

/** A node that was passed: by which port it was left (null: it ends here), what a condition saw, and a mark for people. */
export type Pass = { node: string; type: string; port: string | null; seen?: Seen[]; mark?: 'unknown_node' };

export type Arrival =
  /** Stands on a node that acts or waits. */
  | { kind: 'node'; node: string }
  /** Reached this end; it is the last of `passed`. */
  | { kind: 'end'; node: string }
  /** Cannot go on; `node` is the one that has no way out, a broken config or an unknown type. It is not among `passed`. */
  | { kind: 'failed'; node: string; failure: Failure }
  /** Passed `maxPasses` nodes; `node` would be the next. */
  | { kind: 'cap'; node: string };

export type Following = { passed: Pass[]; at: Arrival };

/** Leaves `fromNode` by `port` and goes on from there. `fromNode` itself is not among `passed`. */
export function follow(compiled: CompiledGraph, fromNode: string, port: string, scope: unknown, options: InterpretOptions): Following {
  const to = compiled.edgeFrom(fromNode, port);
  return to === undefined ? { passed: [], at: noEdge(fromNode, port) } : enter(compiled, to, scope, options);
}

/** Begins at a node: the trigger when a run starts (it is passed), or the node at which a replay takes it up. */
export function enter(compiled: CompiledGraph, atNode: string, scope: unknown, { maxPasses, onUnknown }: InterpretOptions): Following {
  const passed: Pass[] = [];
  for (let id = atNode; ; ) {
    const node = compiled.node(id);
    if (node === undefined) return { passed, at: failure(id, 'no_edge', `There is no node "${id}" in this version`) };
    if (isKnownNodeType(node.type) && NODE_TYPES[node.type].meets === 'performed') return { passed, at: { kind: 'node', node: id } };
    if (!(passed.length < maxPasses)) return { passed, at: { kind: 'cap', node: id } };
    if (isKnownNodeType(node.type) && NODE_TYPES[node.type].meets === 'ends') {
      passed.push({ node: id, type: node.type, port: null });
      return { passed, at: { kind: 'end', node: id } };
    }
    const step = pass(compiled, node, scope, onUnknown);
    if (step.kind === 'failed') return { passed, at: step };
    passed.push(step.pass);
    id = step.to;
  }
}

type Step = { kind: 'passed'; pass: Pass; to: string } | Extract<Arrival, { kind: 'failed' }>;

function pass(compiled: CompiledGraph, node: CompiledNode, scope: unknown, onUnknown: 'advance' | 'fail'): Step {
  switch (node.type) {
    case 'trigger':
      return leave(compiled, node, 'next');
    case 'condition':
      return passCondition(compiled, node, scope);
    default:
      return passUnknown(compiled, node, onUnknown);
  }
}

function passCondition(compiled: CompiledGraph, node: CompiledNode, scope: unknown): Step {
  const config = conditionConfigSchema.safeParse(node.config);
  if (!config.success) {
    const [issue] = config.error.issues;
    return failure(node.id, 'config_invalid', `Condition "${node.id}": ${issue?.path.join('.') || 'config'}: ${issue?.message ?? 'not valid'}`);
  }
  const { result, seen } = evaluateCondition(config.data, scope);
  return leave(compiled, node, result ? 'true' : 'false', seen);
}

function leave(compiled: CompiledGraph, { id, type }: CompiledNode, port: string, seen?: Seen[]): Step {
  const to = compiled.edgeFrom(id, port);
  if (to === undefined) return noEdge(id, port, seen);
  return { kind: 'passed', pass: { node: id, type, port, ...(seen ? { seen } : {}) }, to };
}

function passUnknown(compiled: CompiledGraph, { id, type }: CompiledNode, onUnknown: 'advance' | 'fail'): Step {
  const way = onUnknown === 'advance' ? compiled.firstEdgeFrom(id) : undefined;
  if (way === undefined) return failure(id, 'unknown_node', `Node "${id}" is of the type "${type.slice(0, 100)}", which this version does not know`);
  return { kind: 'passed', pass: { node: id, type, port: way.port, mark: 'unknown_node' }, to: way.to };
}

function noEdge(id: string, port: string, seen?: Seen[]): Extract<Arrival, { kind: 'failed' }> {
  return failure(id, 'no_edge', `Node "${id}" has no edge out of its port "${port}"`, seen);
}

function failure(node: string, code: FailureCode, message: string, seen?: Seen[]): Extract<Arrival, { kind: 'failed' }> {
  return { kind: 'failed', node, failure: { code, message: message.slice(0, 2_000), ...(seen ? { detail: { seen } } : {}) } };
}
