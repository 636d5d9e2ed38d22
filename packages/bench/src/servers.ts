/** The Postgres and the Valkey that everything measured shares, as shipped: fsync and synchronous_commit on, an append-only file. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { startPostgres } from '@onward/stack/postgres';
import { makeTestFolder } from '@onward/stack/test-services';
import { startValkey } from '@onward/stack/valkey';
import { endLater } from './started.js';

export type Servers = {
  postgresUrl: string;
  valkeyUrl: string;
  postgresPid: number;
  valkeyPid: number;
  versions: { postgres: string; valkey: string };
  stop(): Promise<void>;
};

export async function startServers(): Promise<Servers> {
  const folder = makeTestFolder();
  const starting = [startPostgres({ dataDir: join(folder, 'postgres') }), startValkey({ dataDir: join(folder, 'valkey') })] as const;
  const stop = endLater(async () => {
    const started = await Promise.allSettled(starting);
    await Promise.all(started.flatMap((one) => (one.status === 'fulfilled' ? [one.value.stop()] : [])));
    rmSync(folder, { recursive: true, force: true });
  });
  try {
    const [postgres, valkey] = await Promise.all(starting);
    return {
      postgresUrl: postgres.url('postgres'),
      valkeyUrl: valkey.url,
      postgresPid: postgres.pid,
      valkeyPid: valkey.pid,
      versions: { postgres: postgres.version, valkey: valkey.version },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
