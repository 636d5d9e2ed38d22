import type { Installation } from './installation.js';

/**
 * Lets every run end, and moves the clock on whenever all that have not rest until a later time; throws when one has not ended within
 * `withinMs`. While a run is due or in hand the clock stands still, for moving it gives what is due new claims and would disturb the run.
 * A mail that was begun by a gateway which then died is uncertain after 90 s of the real clock; that limit is drawn in once the mail is 5 s old,
 * unless `hasGatewayLived` says that every mail is in somebody's hands.
 */
export async function letAllEnd({ api, query, until }: Installation, withinMs = 60_000, { hasGatewayLived = false } = {}): Promise<void> {
  await until(
    'every run has ended',
    async () => {
      const left = await query<{ rests: boolean }>('SELECT coalesce(due_at > onward_now(), false) AS rests FROM runs WHERE ended_at IS NULL');
      if (left.length === 0) return true;
      if (left.every(({ rests }) => rests)) await api.must('POST', '/test/clock', { advance: '10m' });
      if (hasGatewayLived) return false;
      await query(`UPDATE messages SET begun_until = clock_timestamp() WHERE state = 'begun' AND begun_until < clock_timestamp() + interval '85 seconds'`);
      return false;
    },
    withinMs,
  );
}
