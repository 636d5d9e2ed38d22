/** A Postgres and a Valkey of one test file, which may be killed, stopped and wiped without touching another's. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type KeptService, keepService } from '@onward/stack/keep-service';
import { type PostgresServer, startPostgres } from '@onward/stack/postgres';
import { makeTestFolder } from '@onward/stack/test-services';
import { startValkey, type ValkeyServer } from '@onward/stack/valkey';

export type OwnServices = {
  postgres(): PostgresServer;
  valkey(): ValkeyServer;
  /** Postgres is down from before `work` begins until after it has ended. */
  withoutPostgres<Result>(work: () => Promise<Result>): Promise<Result>;
  stop(): Promise<void>;
};

const quiet = (): void => undefined;

/** Both come back on their ports when they are killed. */
export async function startOwnServices(): Promise<OwnServices> {
  const folder = makeTestFolder();
  const keepPostgres = (wanted?: number): Promise<KeptService<PostgresServer>> =>
    keepService('postgres', (port = wanted) => startPostgres({ dataDir: join(folder, 'postgres'), ...(port === undefined ? {} : { port }) }), quiet);
  let postgres = await keepPostgres();
  const valkey = await keepService('valkey', (port) => startValkey({ dataDir: join(folder, 'valkey'), ...(port === undefined ? {} : { port }) }), quiet);
  return {
    postgres: () => postgres.current(),
    valkey: () => valkey.current(),
    async withoutPostgres(work) {
      const { port } = postgres.current();
      await postgres.stop();
      try {
        return await work();
      } finally {
        postgres = await keepPostgres(port);
      }
    },
    async stop() {
      await Promise.all([postgres.stop(), valkey.stop()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
