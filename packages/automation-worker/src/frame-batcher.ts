/**
 * Gathers the calls of many runs into few frames. What is sent in one turn of the event loop leaves together; while all lanes are taken, more is
 * gathered. Nobody who sends knows of it: a run gives its items and is answered its replies.
 *
 * A frame is only transport, so what goes wrong stays with the run it belongs to: an answer is a run's by its position; an item that threw is one of its
 * replies; a run that alone could not be served (`unavailable`) is sent again until its deadline, so that no outcome in hand is lost. A frame refused as a whole for what is in it (too
 * large, there or back; not fit to be read) is halved and sent again, down to single runs: a repeat is answered from what was recorded. Any other
 * fault of a frame fails each of its runs: what happened to them is unknown.
 * Each run has the whole time of a call, from when it was sent, however long it waited for a lane.
 *
 * Not promised: any order among runs. A frame is answered when its slowest run is.
 */
import type { ErrorCode } from '@onward/contracts/errors';
import { FRAME_PATTERN, FRAME_VERSION, type FrameItem, type FrameReply } from '@onward/contracts/frame';
import { stringify } from '@onward/wire/codec';
import { PASSING, RpcFault, RpcTimeout } from '@onward/wire/faults';

/** Frames in flight at once. Two cost 40 % of the throughput at 50 runs. */
export const LANES = 8;
/** A frame that may go on can take half a second, so some lanes are kept for those that are answered at once. */
export const LANES_THAT_GO_ON = 6;
/** With so many steps the backend may go on by itself: as long as it performs them, a worker would only ask for the next one. */
const FOLLOWING = 50;
export const RUNS_PER_FRAME = 128;
/** Of the JSON text of a frame; a run with more travels alone. Far below the limit of a message, which counts bytes. */
export const MAX_FRAME_CHARS = 1024 * 1024;
/** When a run that could not be served is sent again, in ms: after 200 to 400, 200 to 800, … 2,000 at most. */
const FIRST_PAUSE_MS = 200;
const MAX_PAUSE_MS = 2_000;
/** A frame's own deadline is heard first: it knows what its sendings came to. */
const GRACE_MS = 100;

/** What speaks of a frame's content and may be true of one of its runs only. */
const OF_CONTENT: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['too_large', 'malformed', 'invalid']);

/** What one run was answered. */
export type RunAnswer = FrameReply['runs'][number];
/** Sends the JSON text of a frame. Throws RpcFault, RpcTimeout or ClientClosed. */
type Call = (frameText: string, options: { timeoutMs: number }) => Promise<FrameReply>;

/** One run's items on their way. */
type Entry = { text: string; deadlineMs: number; tries: number; isSettled: boolean; settle(answer: RunAnswer): void; fail(error: unknown): void };

export class FrameBatcher {
  private queue: Entry[] = [];
  /** All that are not answered yet, in the order of their deadlines. */
  private readonly open = new Set<Entry>();
  private inFlight = 0;
  private isGathering = false;
  private expiry: NodeJS.Timeout | undefined;

  /** `timeoutMs`: the whole time of a run's call; `noteFrame` is told how long each frame took, in ms, however it ended. */
  constructor(
    private readonly call: Call,
    private readonly options: { timeoutMs: number; noteFrame?: (tookMs: number) => void },
  ) {}

  /** What one run's items are answered, in order, and the last step that followed. Throws what the call of its frame threw, or RpcTimeout. */
  async send(items: readonly FrameItem[]): Promise<RunAnswer> {
    const text = stringify({ items });
    return new Promise((resolve, reject) => {
      const entry: Entry = {
        text,
        deadlineMs: performance.now() + this.options.timeoutMs,
        tries: 0,
        isSettled: false,
        settle: (answer) => {
          if (this.close(entry)) resolve(answer);
        },
        fail: (error) => {
          if (this.close(entry)) reject(error);
        },
      };
      this.open.add(entry);
      this.expiry ??= this.expireIn(this.options.timeoutMs);
      this.enqueue(entry);
    });
  }

  private close(entry: Entry): boolean {
    if (entry.isSettled) return false;
    entry.isSettled = true;
    this.open.delete(entry);
    return true;
  }

  private enqueue(entry: Entry): void {
    this.queue.push(entry);
    this.gather();
  }

  private gather(): void {
    if (this.isGathering || this.inFlight >= LANES || this.queue.length === 0) return;
    this.isGathering = true;
    setImmediate(() => {
      this.isGathering = false;
      this.leave();
    });
  }

  private leave(): void {
    while (this.inFlight < LANES) {
      const entries = this.takeFrame();
      if (entries.length === 0) return;
      this.inFlight += 1;
      void this.deliver(entries).finally(() => {
        this.inFlight -= 1;
        this.gather();
      });
    }
  }

  /** From the head of the queue as many as fit into one frame, but at least one. */
  private takeFrame(): Entry[] {
    let count = 0;
    let chars = 0;
    for (const { text } of this.queue) {
      chars += text.length;
      if (count === RUNS_PER_FRAME || (count > 0 && chars > MAX_FRAME_CHARS)) break;
      count += 1;
    }
    const entries = this.queue.slice(0, count);
    this.queue = this.queue.slice(count);
    return entries;
  }

  /** Sends a frame and gives each run what it was answered. Never throws. */
  private async deliver(all: readonly Entry[]): Promise<void> {
    const entries = all.filter(({ isSettled }) => !isSettled);
    if (entries.length === 0) return;
    const askedAtMs = performance.now();
    const lastDeadlineMs = entries.reduce((latest, { deadlineMs }) => Math.max(latest, deadlineMs), 0);
    let answer: FrameReply;
    try {
      answer = await this.call(frameOf(entries, this.inFlight <= LANES_THAT_GO_ON ? FOLLOWING : 0), { timeoutMs: Math.max(1, lastDeadlineMs - askedAtMs) });
    } catch (error) {
      if (entries.length > 1 && error instanceof RpcFault && OF_CONTENT.has(error.code)) {
        const half = Math.ceil(entries.length / 2);
        await this.deliver(entries.slice(0, half));
        await this.deliver(entries.slice(half));
        return;
      }
      this.options.noteFrame?.(performance.now() - askedAtMs);
      for (const { fail } of entries) fail(error);
      return;
    }
    this.options.noteFrame?.(performance.now() - askedAtMs);
    entries.forEach((entry, index) => {
      const run = answer.runs[index] ?? { replies: [] };
      const [first] = run.replies;
      if (first && 'error' in first && PASSING.has(first.error.code)) this.sendAgain(entry);
      else entry.settle(run);
    });
  }

  private sendAgain(entry: Entry): void {
    entry.tries += 1;
    const ceilingMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** entry.tries);
    setTimeout(() => this.enqueue(entry), FIRST_PAUSE_MS + Math.random() * (ceilingMs - FIRST_PAUSE_MS));
  }

  /** One timer for all: it looks at whoever is first to be late. */
  private expireIn(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.expire(), ms + GRACE_MS).unref();
  }

  private expire(): void {
    this.expiry = undefined;
    const nowMs = performance.now();
    for (const entry of this.open) {
      if (entry.deadlineMs > nowMs) {
        this.expiry = this.expireIn(entry.deadlineMs - nowMs);
        return;
      }
      entry.fail(new RpcTimeout(FRAME_PATTERN, this.options.timeoutMs, null));
    }
  }
}

function frameOf(entries: readonly Entry[], following: number): string {
  return `{"v":${FRAME_VERSION},"following":${following},"runs":[${entries.map(({ text }) => text).join(',')}]}`;
}
