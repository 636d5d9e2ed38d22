import { rows, type Tx } from '../database/sql.js';

/**
 * May this address be written to now? The one rule for every mail, asked when a message is prepared and again right before SMTP.
 * Bounces, complaints and what an operator entered by hand stop every mail; an opt-out stops all but transactional mail; an address
 * found unusable stops all mail to it; a contact deleted meanwhile gets nothing.
 */
export type GateReason = 'bounce' | 'complaint' | 'manual' | 'unsubscribed' | 'bad_address' | 'contact_deleted';
type Question = { address: string; contactId: string | null; isTransactional: boolean };

/** The reason not to send, the gravest first, or null. */
export async function askGate(tx: Tx, { address, contactId, isTransactional }: Question): Promise<GateReason | null> {
  const [found] = await rows<{ suppressed: GateReason | null; hasContact: boolean; emailProblem: string | null }>(
    tx,
    `SELECT (SELECT s.reason FROM suppressions s
              WHERE s.email = lower($1) AND (s.reason <> 'unsubscribed' OR NOT $3::boolean)
              ORDER BY array_position(ARRAY['complaint', 'bounce', 'manual', 'unsubscribed'], s.reason) LIMIT 1) AS suppressed,
            EXISTS (SELECT FROM contacts WHERE id = $2::uuid) AS "hasContact",
            (SELECT c.email_problem FROM contacts c WHERE c.id = $2::uuid AND c.email = lower($1)) AS "emailProblem"`,
    [address, contactId, isTransactional],
  );
  if (found?.suppressed) return found.suppressed;
  if (contactId !== null && !found?.hasContact) return 'contact_deleted';
  return found?.emailProblem ? 'bad_address' : null;
}
