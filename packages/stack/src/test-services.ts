/**
 * Gives a vitest run a real PostgreSQL and a real Valkey: name this file as `globalSetup`.
 *
 * Servers named by ONWARD_TEST_POSTGRES_URL and ONWARD_TEST_VALKEY_URL are used as they are; what is not named is started
 * in a new temporary folder and named so for the test files. The teardown stops and removes what the set-up started, and
 * the next set-up does it for a run that was killed. The PostgreSQL URL is a superuser's, on database `postgres`.
 */
import { chmodSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { claim } from './claim.js';
import { endProcess } from './end-process.js';
import { publishTestServices, readTestServices } from './environment.js';
import { startPostgres } from './postgres.js';
import { findRecorded } from './process-record.js';
import { startValkey } from './valkey.js';

const PREFIX = 'onward-test-';

/** Answers the teardown. Throws when a server cannot be started. */
export default async function setup(): Promise<() => Promise<void>> {
  const given = readTestServices();
  if (given.postgresUrl !== undefined && given.valkeyUrl !== undefined) return async () => {};
  const started = await startTestServices(given);
  publishTestServices({ postgresUrl: started.postgresUrl, valkeyUrl: started.valkeyUrl });
  return async () => {
    publishTestServices(given);
    await started.stop();
  };
}

export type StartedTestServices = { readonly postgresUrl: string; readonly valkeyUrl: string; stop(): Promise<void> };

/** Starts whichever server is not given, in a temporary folder that `stop` removes. */
export async function startTestServices(
  given: { readonly postgresUrl?: string | undefined; readonly valkeyUrl?: string | undefined } = {},
): Promise<StartedTestServices> {
  await removeAbandoned();
  const folder = makeTestFolder();
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (const stopOne of stops.splice(0).reverse()) await stopOne();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const [postgresUrl, valkeyUrl] = await Promise.all([
      given.postgresUrl ??
        startPostgres({ dataDir: join(folder, 'postgres') }).then((server) => {
          stops.push(() => server.stop());
          return server.url('postgres');
        }),
      given.valkeyUrl ??
        startValkey({ dataDir: join(folder, 'valkey') }).then((server) => {
          stops.push(() => server.stop());
          return server.url;
        }),
    ]);
    return { postgresUrl, valkeyUrl, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * A temporary folder of this process, which other accounts may enter. It is swept when the process is gone: the servers whose
 * data lie in it are ended, then it is removed. It gets its name only once it is claimed, so that no other run takes it
 * for abandoned.
 */
export function makeTestFolder(): string {
  const draft = mkdtempSync(join(tmpdir(), 'onward-new-'));
  chmodSync(draft, 0o711); // the account that runs PostgreSQL for root must get in
  claim(join(draft, 'run.owner'), 'a test run');
  const folder = join(tmpdir(), `${PREFIX}${basename(draft).slice('onward-new-'.length)}`);
  renameSync(draft, folder);
  return folder;
}

/** Ends the servers and removes the folders of test runs that were killed. Folders of other users are left alone. */
async function removeAbandoned(): Promise<void> {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(PREFIX))) {
    const folder = join(tmpdir(), name);
    try {
      const answer = claim(join(folder, 'run.owner'), 'a test run');
      if (answer.kind === 'held') continue;
      const records = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.server'));
      for (const path of records) {
        const record = findRecorded(join(folder, path));
        if (record !== undefined)
          await endProcess(record, [
            { signal: 'SIGINT', patienceMs: 5_000 },
            { signal: 'SIGKILL', patienceMs: 5_000 },
          ]);
      }
      rmSync(folder, { recursive: true, force: true });
    } catch {
      // Somebody else's, or gone in the meantime.
    }
  }
}
