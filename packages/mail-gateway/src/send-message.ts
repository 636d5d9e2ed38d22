/**
 * Delivers one message of the queue: ask the backend, hand over to SMTP, tell the backend.
 *
 * The job says only "look at this message". `mail.message.begin` decides: a job that comes twice, or after the message was taken back,
 * is answered `already` or `skip` and sends nothing. Once handed over, the result is all that is known of it: it is brought
 * to the backend again and again until the backend has answered, and announced on `mail-results` besides, where it may arrive by
 * another way. The first one stored wins, so both may.
 *
 * Throws when begin was not answered (nothing was sent, as far as this process knows), when the backend cannot accept the result, or when
 * `giveUp` ends the wait. The backend then calls the message uncertain after its time.
 */
import { randomUUID } from 'node:crypto';
import type { MailResult, MessageResult, PreparedMessage } from '@onward/contracts/mail';
import type { MailJob } from '@onward/contracts/queues';
import type { BackendClient } from '@onward/wire/client';
import { RpcTimeout } from '@onward/wire/faults';
import type { Logger } from 'pino';

export interface Delivery {
  backend: Pick<BackendClient, 'call'>;
  /** Never throws. */
  handOver(message: PreparedMessage, options: { signal: AbortSignal }): Promise<MailResult>;
  /** Best effort: never throws, and returns within seconds. */
  announce(result: MessageResult): Promise<void>;
  log: Pick<Logger, 'info' | 'warn'>;
  /** Cuts an exchange with the mail server that does not end by itself while the process stops. Its result still counts. */
  cut: AbortSignal;
  /** Ends the wait for the backend when the process must go. */
  giveUp: AbortSignal;
}

/** What became of the job, for the log. */
export type Delivered = MailResult['kind'] | 'skip' | 'already';

export async function deliver(job: MailJob, { backend, handOver, announce, log, cut, giveUp }: Delivery): Promise<Delivered> {
  const begun = await backend.call('mail.message.begin', { ...job, callId: randomUUID() }, { signal: giveUp });
  switch (begun.kind) {
    case 'skip':
      log.info({ ...job, reason: begun.reason }, 'message not sent: the backend took it back');
      return 'skip';
    case 'already':
      log.info({ ...job, state: begun.state }, 'message not sent: this try was begun before');
      return 'already';
    case 'send':
      break;
  }
  const result = await handOver(begun.message, { signal: cut });
  const messageResult = { messageId: job.messageId, try: job.try, result };
  logResult(log, messageResult);
  for (;;) {
    try {
      await backend.call('mail.message.end', messageResult, { signal: giveUp });
      return result.kind;
    } catch (error) {
      if (!(error instanceof RpcTimeout)) throw error;
      log.warn({ ...job, why: error.message }, 'the backend has not answered to the result; it is told again');
    } finally {
      await announce(messageResult);
    }
  }
}

function logResult(log: Delivery['log'], { messageId, try: n, result }: MessageResult): void {
  if (result.kind === 'sent') log.info({ messageId, try: n, response: result.response }, 'message sent');
  else log.warn({ messageId, try: n, code: result.failure.code, why: result.failure.message }, `message ${result.kind}`);
}
