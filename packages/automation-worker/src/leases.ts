import { FRAME_VERSION, type Frame, type FrameReply, MAX_RUNS_PER_FRAME, type WorkerGauges } from '@onward/contracts/frame';
import type { TargetReport } from '@onward/contracts/targets';
import { callFrame } from '@onward/wire/call-frame';
import type { BackendClient } from '@onward/wire/client';

/** One claim this worker holds. */
export type Held = {
  /** Aborted when the backend has refused to renew it: somebody else has the run, and nothing more may be sent for it. */
  lost: AbortSignal;
  /** Was the lease confirmed within its own length? Looked at right before the first byte leaves. */
  isConfirmed(): boolean;
  letGo(): void;
};

type Claim = { runId: string; claimId: string; epoch: number; leaseMs: number };
type Entry = Claim & { lost: AbortController; confirmedAtMs: number };

/**
 * Keeps the leases of all runs in hand: every third of a lease one frame renews them all, on a connection of its own so that it waits for no
 * other call. It goes out also when no run is held, and says how many are and how the targets are found. Its answer says how many workers there are.
 */
export class Leases {
  private readonly entries = new Set<Entry>();
  private timer: NodeJS.Timeout | undefined;
  /** The pace the timer was set with. */
  private everyMs = 0;
  private workersKnown = 1;

  constructor(
    private readonly client: BackendClient,
    private readonly workerId: string,
    private readonly leaseMs: number,
    private readonly report: () => TargetReport[],
  ) {}

  /** How many workers there are, as the backend said last; 1 until it has. */
  get workers(): number {
    return this.workersKnown;
  }

  start(): void {
    clearTimeout(this.timer);
    const everyMs = this.renewEveryMs();
    this.everyMs = everyMs;
    this.timer = setTimeout(() => {
      this.start(); // An answer that is late holds up no renewal.
      void this.renewAll(everyMs);
    }, everyMs);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** `askedAtMs`: when the claim was asked for, by `performance.now()`. The lease counts from then, not from when its answer was read. */
  hold(claim: Claim, askedAtMs: number): Held {
    const entry: Entry = { ...claim, lost: new AbortController(), confirmedAtMs: askedAtMs };
    this.entries.add(entry);
    if (this.timer !== undefined && this.renewEveryMs() < this.everyMs) this.start();
    return {
      lost: entry.lost.signal,
      isConfirmed: () => !entry.lost.signal.aborted && performance.now() - entry.confirmedAtMs < entry.leaseMs,
      letGo: () => void this.entries.delete(entry),
    };
  }

  /** A third of the shortest lease in hand: the backend's word counts, not our own setting. */
  private renewEveryMs(): number {
    let shortest = this.leaseMs;
    for (const { leaseMs } of this.entries) shortest = Math.min(shortest, leaseMs);
    return Math.max(100, Math.floor(shortest / 3));
  }

  /** As many frames as it takes; one without runs when none is held. */
  private async renewAll(timeoutMs: number): Promise<void> {
    const all = [...this.entries];
    const frames = Array.from({ length: Math.max(1, Math.ceil(all.length / MAX_RUNS_PER_FRAME)) }, (_, nth) =>
      all.slice(nth * MAX_RUNS_PER_FRAME, (nth + 1) * MAX_RUNS_PER_FRAME),
    );
    const worker = { workerId: this.workerId, inFlight: all.length, targets: this.report() };
    await Promise.all(frames.map((asked) => this.renew(asked, worker, timeoutMs)));
  }

  private async renew(asked: readonly Entry[], worker: WorkerGauges, timeoutMs: number): Promise<void> {
    const askedAtMs = performance.now();
    const frame: Frame = {
      v: FRAME_VERSION,
      worker,
      runs: asked.map(({ runId, claimId, epoch }) => ({
        items: [{ pattern: 'automation.runtime.run.prepare', data: { runId, claimId, epoch, renew: true } }],
      })),
    };
    let answer: FrameReply;
    try {
      answer = await callFrame(this.client, frame, { timeoutMs: Math.max(timeoutMs, 1_000) });
    } catch {
      return; // Not confirmed; the next one asks again.
    }
    if (answer.workers !== undefined) this.workersKnown = answer.workers;
    asked.forEach((entry, index) => {
      const reply = answer.runs[index]?.replies[0];
      if (!reply || 'error' in reply) return;
      if (reply.reply['kind'] === 'renewed') entry.confirmedAtMs = Math.max(entry.confirmedAtMs, askedAtMs);
      else entry.lost.abort(new Error('The lease was not renewed: the run is under another claim'));
    });
  }
}
