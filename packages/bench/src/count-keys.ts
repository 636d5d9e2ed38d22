import { Redis } from 'ioredis';

/** How many keys there are in Valkey. */
export async function countKeys(url: string): Promise<number> {
  const valkey = new Redis(url);
  const keys = await valkey.dbsize();
  await valkey.quit();
  return keys;
}
