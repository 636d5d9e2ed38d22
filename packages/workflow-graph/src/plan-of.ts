import type { Plan, PlanNode } from '@onward/contracts/plan';
import type { CompiledGraph, CompiledNode } from './compile-graph.js';

/** Extracts from a version's graph what a worker needs to judge its steps. `versionId` is the UUID of the published version. */
export function planOf(versionId: string, compiled: CompiledGraph, performedByWorker: (action: string) => boolean): Plan {
  // fromEntries makes own properties, also of an id such as "constructor".
  return { versionId, nodes: Object.fromEntries(compiled.nodes.map((node) => [node.id, planNode(node, compiled, performedByWorker)])) };
}

function planNode({ id, type, config }: CompiledNode, compiled: CompiledGraph, performedByWorker: (action: string) => boolean): PlanNode {
  const action = type === 'action' && typeof config.action === 'string' ? config.action : undefined;
  return {
    type,
    ...(action === undefined ? {} : { action }),
    performedBy: action !== undefined && performedByWorker(action) ? 'worker' : 'backend',
    hasFailedPort: compiled.edgeFrom(id, 'failed') !== undefined,
    uncertainPolicy: type === 'action' && config.uncertain === 'stop' ? 'stop' : 'resend',
  };
}
