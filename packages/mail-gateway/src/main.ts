/**
 * The process: reads the settings, runs the gateway until SIGTERM or SIGINT, and ends with 0. Wrong settings end it with 1 and a line
 * for each; a second signal ends it at once.
 */
import { maskCredentials } from '@onward/contracts/credential-names';
import { pino, stdTimeFunctions } from 'pino';
import { startGateway } from './gateway.js';
import { readSettings } from './settings.js';

const log = pino({ base: { process: 'mail-gateway' }, timestamp: stdTimeFunctions.isoTime, formatters: { log: maskCredentials } });
const read = readSettings();
if (read.kind === 'invalid') {
  for (const problem of read.problems) process.stderr.write(`mail-gateway: ${problem}\n`);
  process.exit(1);
}
log.level = read.settings.logLevel;

const stopping = new AbortController();
const stopped = new Promise<void>((resolve) => stopping.signal.addEventListener('abort', () => resolve()));
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    if (stopping.signal.aborted) process.exit(1);
    stopping.abort(new Error(signal));
  });
}

try {
  const gateway = await startGateway(read.settings, log, { signal: stopping.signal });
  await stopped;
  log.info({}, 'stopping: no new messages are taken');
  await gateway.stop();
} catch (error) {
  if (!stopping.signal.aborted) throw error;
}
log.info({}, 'stopped');
process.exit(0);
