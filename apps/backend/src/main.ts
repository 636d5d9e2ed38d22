import { createBackend } from './create-backend.js';
import { readSettings } from './settings.js';

/** A process that cannot close in this time, in ms, is ended: nothing that counts lives in its memory. */
const HARD_EXIT_MS = 25_000;

try {
  const backend = await createBackend(readSettings());
  backend.log.info({ port: backend.port, rpcPort: backend.rpcPort }, 'the backend is up');
  let isStopping = false;
  const stop = (signal: string) => {
    if (isStopping) return;
    isStopping = true;
    backend.log.info({ signal }, 'closing: no new calls, those in flight finish');
    setTimeout(() => process.exit(1), HARD_EXIT_MS).unref();
    void backend.close().then(
      () => process.exit(0),
      (error: unknown) => {
        backend.log.error({ err: error }, 'closing failed');
        process.exit(1);
      },
    );
  };
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => stop(signal));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
