import { edgeSchema, KNOWN_NODE_TYPES, MAX_EDGES, MAX_NODES, NODE_CONFIGS, nodeSchema } from '@onward/workflow-graph/graph';
import { z } from 'zod';

/**
 * A graph that can be published, as the OpenAPI description has it. Only a description: the rules of workflow-graph judge a graph, and let a draft be less
 * than this. What an action takes `with` is said by the action's own schema, which stands in no route.
 */
const { $schema: _, ...graph } = z.toJSONSchema(
  z.strictObject({
    nodes: z
      .array(
        z.union(
          KNOWN_NODE_TYPES.map((type) =>
            nodeSchema.extend({ type: z.literal(type), config: type === 'end' ? NODE_CONFIGS.end.optional() : NODE_CONFIGS[type] }),
          ),
        ),
      )
      .max(MAX_NODES),
    edges: z.array(edgeSchema).max(MAX_EDGES),
  }),
  { io: 'input', unrepresentable: 'any' },
);

export const GRAPH_AS_JSON_SCHEMA = graph;
