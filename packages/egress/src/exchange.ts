/**
 * One request and its answer on one origin: no redirect, no retry.
 * Purpose: to know for certain whether a byte of the request can have left, and to end, with the connection closed, the moment it is told to stop.
 * undici's `dispatch` is used and not `request()`, which answers an abort only once the connection is open.
 * Not promised: to notice a connection reset inside a body that has neither Content-Length nor chunks (RFC 9112 §6.3 rule 8); undici takes it as the end.
 */
import type { Dispatcher } from 'undici';
import { describeFault } from './describe-fault.js';
import type { Purpose } from './guarded-pool.js';
import type { Method, SendError } from './send-result.js';

export type Hop = { readonly method: Method; readonly url: URL; readonly headers: Readonly<Record<string, string>>; readonly body: Uint8Array | null };

export type Answer = {
  readonly kind: 'answer';
  readonly status: number;
  readonly rawHeaders: readonly (readonly [string, string])[];
  /** The body as it came over the wire. */
  readonly wire: Buffer;
};

type StopReason = { readonly code: 'timeout' | 'aborted'; readonly message: string };

/** Ends a request with all its hops before its time, once: what comes first is the reason. Told is the hop under way. */
export class Stop {
  reason: StopReason | null = null;
  onStop: ((reason: StopReason) => void) | null = null;

  now(reason: StopReason): void {
    if (this.reason !== null) return;
    this.reason = reason;
    this.onStop?.(reason);
  }
}

export type ExchangeLimits = { readonly connectTimeoutMs: number; readonly headersTimeoutMs: number | null; readonly maxResponseBytes: number };

/** Never rejects. */
export function exchange(agent: Dispatcher, hop: Hop, limits: ExchangeLimits, stop: Stop): Promise<Answer | SendError> {
  return new Promise((resolve) => {
    const purpose: Purpose = { isWanted: () => !isSettled, socket: null };
    const chunks: Buffer[] = [];
    let controller: Dispatcher.DispatchController | null = null;
    let head: { status: number; rawHeaders: (readonly [string, string])[] } | null = null;
    let wireBytes = 0;
    let isSettled = false;

    const settle = (result: Answer | SendError) => {
      if (isSettled) return;
      isSettled = true;
      clearTimeout(timer);
      stop.onStop = null;
      resolve(result);
    };
    const fail = (code: SendError['code'], message: string) => {
      if (isSettled) return;
      settle({ kind: 'error', code, message, mayHaveBeenSent: controller !== null, head });
      const reason = new Error(message);
      if (controller !== null) controller.abort(reason);
      else purpose.socket?.destroy(reason);
    };
    const onStop = ({ code, message }: StopReason) => fail(code, message);

    let timer = setTimeout(() => fail('timeout', `No connection to ${hop.url.host} within ${limits.connectTimeoutMs} ms`), limits.connectTimeoutMs);
    if (stop.reason !== null) return onStop(stop.reason);
    stop.onStop = onStop;

    const handler: Dispatcher.DispatchHandler = {
      // Called with the connection open and nothing written yet; from here on bytes may have left.
      onRequestStart(started) {
        if (isSettled) return started.abort(new Error('nobody waits for the answer'));
        controller = started;
        clearTimeout(timer);
        const { headersTimeoutMs } = limits;
        if (headersTimeoutMs !== null) {
          timer = setTimeout(() => fail('timeout', `No answer from ${hop.url.host} within ${headersTimeoutMs} ms`), headersTimeoutMs);
        }
      },
      onResponseStart(started, status) {
        if (status < 200) return;
        clearTimeout(timer);
        const rawHeaders = pairHeaders(started.rawHeaders);
        head = { status, rawHeaders };
        if (hop.method !== 'HEAD' && announcedBytes(rawHeaders) > limits.maxResponseBytes) failTooLarge();
      },
      onResponseData(_, chunk) {
        wireBytes += chunk.length;
        if (wireBytes > limits.maxResponseBytes) failTooLarge();
        else if (!isSettled) chunks.push(chunk);
      },
      onResponseEnd() {
        if (head !== null) settle({ kind: 'answer', ...head, wire: Buffer.concat(chunks, wireBytes) });
      },
      onResponseError(_, error) {
        if (isSettled) return;
        const { code, message } = describeFault(error, { host: hop.url.host, isSent: controller !== null, hasHead: head !== null });
        settle({ kind: 'error', code, message, mayHaveBeenSent: controller !== null, head });
      },
    };
    const failTooLarge = () => fail('response_too_large', `The answer of ${hop.url.host} is larger than ${limits.maxResponseBytes} bytes`);

    try {
      const { method, url, headers, body } = hop;
      const options: Dispatcher.DispatchOptions & { purpose: Purpose } = {
        origin: url.origin,
        path: url.pathname + url.search,
        method,
        headers,
        body,
        purpose,
      };
      agent.dispatch(options, handler);
    } catch (error) {
      const { code, message } = describeFault(error, { host: hop.url.host, isSent: controller !== null, hasHead: false });
      fail(code, message);
    }
  });
}

function announcedBytes(rawHeaders: readonly (readonly [string, string])[]): number {
  return Number(rawHeaders.find(([name]) => name === 'content-length')?.[1] ?? 0);
}

/** undici's flat list of buffers → pairs, names in lower case. Header bytes are read as Latin-1 (RFC 9110 §5.5). */
function pairHeaders(raw: Dispatcher.DispatchController['rawHeaders']): (readonly [string, string])[] {
  const pairs: (readonly [string, string])[] = [];
  if (!Array.isArray(raw)) return pairs;
  for (let i = 0; i + 1 < raw.length; i += 2) pairs.push([toText(raw[i]).toLowerCase(), toText(raw[i + 1])]);
  return pairs;
}

function toText(value: Buffer | string | undefined): string {
  return typeof value === 'string' ? value : (value?.toString('latin1') ?? '');
}
