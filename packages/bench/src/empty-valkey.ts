/** Forgets everything in Valkey: what an earlier installation left on its queues is not the next one's. */
import { Redis } from 'ioredis';

export async function emptyValkey(url: string): Promise<void> {
  const valkey = new Redis(url);
  await valkey.flushall();
  await valkey.quit();
}
