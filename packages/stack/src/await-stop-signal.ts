/**
 * Waits for the person or the system to ask for the end: Ctrl+C, SIGTERM, or the closing of the terminal.
 *
 * The first signal resolves `asked` and gives time for a clean stop; a later Ctrl+C means now: `onImpatience` is called
 * and the process exits. One key press may arrive twice, from the terminal and from npm, so what follows at once is not
 * taken for a second one.
 */
export type StopSignal = { readonly asked: Promise<NodeJS.Signals> };

const SAME_KEY_PRESS_MS = 1_000;

export function awaitStopSignal(onImpatience: () => void): StopSignal {
  let askedAt: number | undefined;
  const asked = new Promise<NodeJS.Signals>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        if (askedAt !== undefined && signal === 'SIGINT' && Date.now() - askedAt >= SAME_KEY_PRESS_MS) {
          onImpatience();
          process.exit(130);
        }
        askedAt ??= Date.now();
        resolve(signal);
      });
    }
  });
  return { asked };
}
