/**
 * What holds beyond the invariants as long as nobody who performs a step dies or loses its lease: then nothing is uncertain, so every effect
 * happened exactly once. Asked when everything is at rest; answers the breaches in words.
 */
import type { Installation } from './installation.js';

type Asked = Pick<Installation, 'query' | 'target' | 'mail'>;

/** A request for each attempt that was sent, one message for each mail, and nothing uncertain. */
export async function checkSentOnce({ query, target, mail }: Asked): Promise<string[]> {
  const breaches: string[] = [];
  const uncertain = await query<{ runId: string; seq: number; n: number }>(`SELECT run_id AS "runId", seq, n FROM attempts WHERE status = 'uncertain'`);
  for (const { runId, seq, n } of uncertain) breaches.push(`run ${runId}: attempt ${n} of step ${seq} is uncertain`);

  const sent = await query<{ key: string; attempts: number }>(
    `SELECT idempotency_key AS key, count(*)::int AS attempts
     FROM outbound_requests JOIN attempts USING (run_id, seq) WHERE status IN ('done', 'failed') GROUP BY 1`,
  );
  const requests = countBy(target.requests().map(({ headers }) => headers['idempotency-key'] ?? ''));
  for (const { key, attempts } of sent) {
    const seen = requests.get(key) ?? 0;
    if (seen !== attempts) breaches.push(`the target saw ${seen} requests under ${key}, of which ${attempts} attempts are recorded`);
  }

  const messages = await query<{ header: string }>(`SELECT message_id_header AS header FROM messages WHERE state = 'sent'`);
  const received = countBy(await Promise.all(mail.messages().map(async (message) => (await message.parse()).messageId ?? '')));
  for (const { header } of messages) {
    const seen = received.get(header) ?? 0;
    if (seen !== 1) breaches.push(`the mail server saw ${header} ${seen} times`);
  }
  return breaches;
}

/**
 * Each tag that a step has put on a contact who did not carry it was announced once: an effect inside Postgres happens exactly once, whoever dies.
 * True of journeys whose steps add each tag of a contact once, while an active workflow wants `tag.added`.
 */
export async function checkTagsAddedOnce(query: Installation['query']): Promise<string[]> {
  const wrong = await query<{ contactId: string; tag: string; steps: number; events: number }>(
    `SELECT contact_id AS "contactId", tag, steps, events
     FROM (SELECT contact_id, output ->> 'tag' AS tag, count(*)::int AS steps
           FROM attempts JOIN runs ON runs.id = run_id WHERE status = 'done' AND output ? 'changed' GROUP BY 1, 2) AS done
     FULL JOIN (SELECT contact_id, payload ->> 'tag' AS tag, count(*)::int AS events FROM events WHERE type = 'tag.added' GROUP BY 1, 2) AS announced
     USING (contact_id, tag)
     WHERE steps IS DISTINCT FROM 1 OR events IS DISTINCT FROM 1`,
  );
  return wrong.map(({ contactId, tag, steps, events }) => `contact ${contactId}: ${tag} was added by ${steps ?? 0} steps and announced ${events ?? 0} times`);
}

function countBy(keys: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}
