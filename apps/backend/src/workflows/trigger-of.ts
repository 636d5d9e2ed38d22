import { compileGraph } from '@onward/workflow-graph/compile-graph';
import { type TriggerConfig, triggerConfigSchema } from './workflow-settings.js';

/** What the graph's trigger node says starts a run; null when it has none, or one that cannot be read. Takes any value. */
export function triggerOf(graph: unknown): TriggerConfig | null {
  const compiled = compileGraph(graph);
  const trigger = compiled.trigger === undefined ? undefined : compiled.node(compiled.trigger);
  const read = triggerConfigSchema.safeParse(trigger?.config);
  return read.success ? read.data : null;
}
