/** A Postgres and a Valkey of one test file, which may be killed, stopped and wiped without touching another's. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type KeptService, keepService } from '@onward/stack/keep-service';
import { type PostgresServer, startPostgres } from '@onward/stack/postgres';
import { startValkey, type ValkeyServer } from '@onward/stack/valkey';

export type OwnServices = { postgres: KeptService<PostgresServer>; valkey: KeptService<ValkeyServer>; stop(): Promise<void> };

const quiet = (): void => undefined;

/** Both come back on their ports when they are killed. */
export async function startOwnServices(): Promise<OwnServices> {
  const folder = mkdtempSync(join(tmpdir(), 'onward-own-'));
  const at = (port: number | undefined) => (port === undefined ? {} : { port });
  const postgres = await keepService('postgres', (port) => startPostgres({ dataDir: join(folder, 'postgres'), ...at(port) }), quiet);
  const valkey = await keepService('valkey', (port) => startValkey({ dataDir: join(folder, 'valkey'), ...at(port) }), quiet);
  return {
    postgres,
    valkey,
    async stop() {
      await Promise.all([postgres.stop(), valkey.stop()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
