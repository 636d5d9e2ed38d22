/**
 * The process: reads the settings, drives runs until SIGTERM or SIGINT, and ends with 0. Wrong settings end it with 1 and a line for each;
 * a second signal ends it at once. A queue that cannot be heard any more ends it with 1, after the usual stop, for its supervisor to start anew.
 */
import { maskCredentials } from '@onward/contracts/credential-names';
import { pino, stdTimeFunctions } from 'pino';
import { readSettings, type Settings } from './settings.js';
import { startWorker } from './worker.js';

let settings: Settings;
try {
  settings = readSettings();
} catch (error) {
  process.stderr.write(`automation-worker: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}

const log = pino({
  base: { process: 'automation-worker' },
  level: settings.logLevel,
  timestamp: stdTimeFunctions.isoTime,
  formatters: { log: maskCredentials },
});
const stopping = new AbortController();
const stopped = new Promise<void>((resolve) => stopping.signal.addEventListener('abort', () => resolve()));
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    if (stopping.signal.aborted) process.exit(1);
    stopping.abort(new Error(signal));
  });
}

let exitCode = 0;
try {
  const worker = await startWorker(settings, log, { signal: stopping.signal });
  await Promise.race([stopped, worker.deaf]);
  if (!stopping.signal.aborted) exitCode = 1;
  log.info('stopping: no new wake-ups are taken');
  await worker.stop();
} catch (error) {
  if (!stopping.signal.aborted) throw error;
}
log.info('stopped');
process.exit(exitCode);
