import { conditionConfigSchema } from '@onward/workflow-graph/graph';
import { z } from 'zod';

export const WORKFLOW_STATUSES = ['draft', 'active', 'paused'] as const;
export type WorkflowStatus = (typeof WORKFLOW_STATUSES)[number];

/** May the same contact enter again: never, once the earlier run has ended, or at any time. */
export const REENTRY_RULES = ['never', 'after_finishing', 'always'] as const;

export const workflowSettingsSchema = z.strictObject({
  reentry: z.enum(REENTRY_RULES).default('after_finishing'),
  /** Mail addresses told when a run of this workflow ends failed or dead-lettered. */
  notify: z.array(z.email()).max(20).default([]),
});
export type WorkflowSettings = z.infer<typeof workflowSettingsSchema>;

/** What starts a run, as dispatchers read it from the workflow row. */
export const triggerConfigSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('manual') }),
  z.strictObject({ type: z.literal('event'), event: z.string(), filter: conditionConfigSchema.optional() }),
]);
export type TriggerConfig = z.infer<typeof triggerConfigSchema>;
