import { z } from 'zod';

/** What to do with a send that may or may not have happened: send again with the same key (at most three times), or stop. */
export const uncertainPolicySchema = z.enum(['resend', 'stop']);
export type UncertainPolicy = z.infer<typeof uncertainPolicySchema>;

/** What a worker must know of a node to judge its outcomes. */
export const planNodeSchema = z.strictObject({
  type: z.string(),
  action: z.string().optional(),
  performedBy: z.enum(['backend', 'worker']),
  hasFailedPort: z.boolean(),
  uncertainPolicy: uncertainPolicySchema,
});
export type PlanNode = z.infer<typeof planNodeSchema>;

/** The immutable extract of a published version that workers cache by `versionId`. */
export const planSchema = z.strictObject({
  versionId: z.uuid(),
  nodes: z.record(z.string(), planNodeSchema),
});
export type Plan = z.infer<typeof planSchema>;
