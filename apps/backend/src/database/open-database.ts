import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import type { Settings } from '../settings.js';
import { createDataSource, createVitalSource } from './data-source.js';
import { isUnavailable } from './is-unavailable.js';
import { migrate } from './migrate.js';
import { rows } from './sql.js';

const RETRY_EVERY_MS = 1_000;

/**
 * Connects, waiting for a database that is not there yet and saying so, brings the schema up to date, and refuses a database whose clock
 * was moved unless this process has the test clock. Answers two pools: `source` for all work, `vital` for what must not wait behind it.
 */
export async function openDatabase(settings: Settings, log: Logger): Promise<{ source: DataSource; vital: DataSource }> {
  const source = createDataSource(settings.databaseUrl, settings.databasePoolSize, (error) =>
    log.warn({ err: error }, 'an idle database connection broke and is replaced'),
  );
  const vital = createVitalSource(settings.databaseUrl, (error) => log.warn({ err: error }, 'an idle connection for renewals broke and is replaced'));
  for (let isSaid = false; ; ) {
    try {
      await source.initialize();
      await migrate(source, settings.databaseUrl);
      await vital.initialize();
      break;
    } catch (error) {
      if (source.isInitialized) await source.destroy();
      if (!isUnavailable(error)) throw error;
      if (!isSaid) log.warn(`waiting for Postgres at ${new URL(settings.databaseUrl).host}`);
      isSaid = true;
      await sleep(RETRY_EVERY_MS);
    }
  }
  const [clock] = await rows<{ offset: string }>(source, 'SELECT offset_ms AS offset FROM clock_offset');
  if (clock?.offset !== '0' && !settings.hasTestClock) {
    await Promise.all([source.destroy(), vital.destroy()]);
    throw new Error('The clock of this database was moved by a test; start with ONWARD_TEST_CLOCK=1 or use another database');
  }
  return { source, vital };
}
