/**
 * Listening to an AbortSignal that many wait on. A signal looks through all its listeners whenever one comes or goes, so each is listened to once here, for
 * all: a worker's stop signal has hundreds who come and go with every send.
 * For signals of an AbortController. Those of AbortSignal.any and AbortSignal.timeout are kept by Node for as long as anybody listens, and here that is for ever.
 */
const listening = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `listener` when the signal is aborted, unless what is returned has been called by then. Of one that is aborted already nothing is told. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  let listeners = listening.get(signal);
  if (listeners === undefined) {
    const all = new Set<() => void>();
    listening.set(signal, all);
    signal.addEventListener('abort', () => all.forEach((tell) => tell()), { once: true });
    listeners = all;
  }
  const all = listeners;
  all.add(listener);
  return () => void all.delete(listener);
}
