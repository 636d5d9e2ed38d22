import { z } from 'zod';

/**
 * The queues on Valkey. They carry hints: an id and nothing else, so a wiped queue costs only latency.
 * The prefix keeps every key of an installation in one cluster slot.
 */
export const QUEUE_PREFIX = '{onward}';

export const AUTOMATIONS_QUEUE = 'automations';
export const EXECUTE_RUN = 'execute-run';
/** Payload of `execute-run`. "Look at this run": it may come twice, late or never. Job id: the claimId. */
export const wakeUpSchema = z.strictObject({ runId: z.uuid(), claimId: z.uuid() });
export type WakeUp = z.infer<typeof wakeUpSchema>;

export const MAIL_QUEUE = 'mail';
export const SEND_MESSAGE = 'send-message';
/** Payload of `send-message`. Job id: `<messageId>-<try>`. */
export const mailJobSchema = z.strictObject({ messageId: z.uuid(), try: z.number().int().positive() });
export type MailJob = z.infer<typeof mailJobSchema>;

export const MAIL_RESULTS_QUEUE = 'mail-results';
export const MESSAGE_RESULT = 'message-result';
