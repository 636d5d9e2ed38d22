import { z } from 'zod';
import { failureSchema } from './outcome.js';
import { instantSchema } from './json.js';

/** A whole SMTP exchange may take this long; past it the gateway gives up and calls it uncertain or failed. */
export const SMTP_DEADLINE_MS = 60_000;
/** A begun message without a result is uncertain after this long: longer than the SMTP deadline plus the way back. */
export const BEGUN_FOR_MS = 90_000;
/** A message is handed to SMTP at most this often when its delivery is uncertain. */
export const MAX_UNCERTAIN_TRIES = 2;

const mailboxSchema = z.strictObject({ name: z.string(), address: z.string() });

/** A message ready to be sent: one recipient, filled, with its fixed Message-ID (RFC 5322 §3.6.4, angle brackets included). */
export const preparedMessageSchema = z.strictObject({
  messageId: z.uuid(),
  try: z.number().int().positive(),
  messageIdHeader: z.string(),
  from: mailboxSchema,
  to: mailboxSchema,
  replyTo: mailboxSchema.nullable(),
  subject: z.string(),
  html: z.string().nullable(),
  text: z.string().nullable(),
});
export type PreparedMessage = z.infer<typeof preparedMessageSchema>;

/** What a hand-over to SMTP came to. `uncertain`: cut after DATA, so it may have been delivered (RFC 1047). */
export const mailResultSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('sent'), response: z.string().max(1_000), at: instantSchema }),
  z.strictObject({ kind: z.literal('failed'), failure: failureSchema }),
  z.strictObject({ kind: z.literal('uncertain'), failure: failureSchema }),
]);
export type MailResult = z.infer<typeof mailResultSchema>;

const messageRef = { messageId: z.uuid(), try: z.number().int().positive() };

/** Payload of `message-result` on `mail-results`. */
export const messageResultSchema = z.strictObject({ ...messageRef, result: mailResultSchema });
export type MessageResult = z.infer<typeof messageResultSchema>;

/**
 * The two calls of the mail gateway, beside the 13 of the runtime.
 * `begin` is asked right before SMTP: one transaction asks the suppression gate and the run again and records that the
 * try has begun. `end` stores the result; the first result per (message, try) wins and a repeat is answered `already`.
 */
export const MAIL_PATTERNS = {
  'mail.message.begin': {
    /** `callId` is made anew for each delivery and kept when the call is sent again, so that a lost answer can be given once more. */
    request: z.strictObject({ ...messageRef, callId: z.uuid() }),
    reply: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('send'), message: preparedMessageSchema }),
      /** Not to be sent: suppressed, its run cancelled, or no such message. */
      z.strictObject({ kind: z.literal('skip'), reason: z.string() }),
      /** This try has begun or ended before, or a later try exists: nothing to do. */
      z.strictObject({ kind: z.literal('already'), state: z.string() }),
    ]),
  },
  'mail.message.end': {
    request: messageResultSchema,
    reply: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('stored') }), z.strictObject({ kind: z.literal('already'), state: z.string() })]),
  },
} as const;
