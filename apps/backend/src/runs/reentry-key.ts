import { createHash } from 'node:crypto';

/**
 * What a live run holds so that its contact has no second one in the workflow: the first 16 bytes of the SHA-256 of `workflowId:contactId`, as a
 * UUID, for the text itself would cost each such run ten times as much on disk.
 */
export function reentryKeyOf({ workflowId, contactId }: { workflowId: string; contactId: string }): string {
  const hex = createHash('sha256').update(`${workflowId}:${contactId}`).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}
