import { createHash } from 'node:crypto';
import { prepared, type Tx } from '../database/sql.js';
import type { ContactInput } from './contact-input.js';

/** Any number, the same for every backend of one database: the first half of the advisory lock's key. */
const IDENTITY_LOCKS = 7_269_106;
/**
 * Identities share this many locks. Enough that two requests rarely meet, and few enough that the largest batch does not fill the lock
 * table of Postgres (`max_locks_per_transaction` × connections, 6,400 by default).
 */
const STRIPES = 512;

/**
 * Holds the identities of these contacts until the transaction ends: nobody else makes, adopts or renames a contact by one of them.
 * Unique indexes alone cannot say that an e-mail given together with an external id adopts a contact made a moment ago by the e-mail.
 * Locks are taken in one order whatever order the contacts come in, so that two batches cannot wait for each other.
 */
export async function lockIdentities(tx: Tx, contacts: Pick<ContactInput, 'externalId' | 'email'>[]): Promise<void> {
  const stripes = new Set<number>();
  for (const { externalId, email } of contacts) {
    if (externalId !== undefined) stripes.add(stripeOf(`x:${externalId}`));
    if (email !== undefined) stripes.add(stripeOf(`e:${email}`));
  }
  const inOrder = [...stripes].sort((a, b) => a - b);
  if (inOrder.length > 0) await prepared(tx, 'SELECT pg_advisory_xact_lock($1, stripe) FROM unnest($2::int[]) AS stripe', [IDENTITY_LOCKS, inOrder]);
}

function stripeOf(identity: string): number {
  return createHash('sha1').update(identity).digest().readUInt16BE() % STRIPES;
}
