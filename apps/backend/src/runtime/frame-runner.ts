import { ERRORS } from '@onward/contracts/errors';
import type { Frame, FrameItem, FrameReply, RpcError } from '@onward/contracts/frame';
import type { RuntimePattern, RuntimeReply } from '@onward/contracts/patterns';
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { DataSource, QueryFailedError } from 'typeorm';
import { VITAL_SOURCE } from '../database/data-source.js';
import { dropWakeUps, transactAndTell } from '../database/outbox.js';
import { databaseFault } from '../database/database-fault.js';
import { attempt, type Tx } from '../database/sql.js';
import { LOGGER } from '../operations/logger.js';
import { Queues } from '../operations/queues.js';
import { type Checkpoint, changeRun, lockRun, lockRuns, refused, restore, snapshot } from './checkpoint.js';
import { closingItem, followingItems, type FrameStep, frameStepOf, Pace } from './following-step.js';
import { ALONE, createLanes } from './frame-lanes.js';
import { HANDLERS } from './handlers.js';
import { KnownRuns } from './known-runs.js';
import { isEnded } from './moves.js';
import { countFailedClaim } from './prepare-run.js';
import { readItems } from './read-items.js';
import { isRenewal, renewLeases } from './renew-leases.js';
import { OneAtATime } from './one-at-a-time.js';
import { pointsAfter } from './points-after.js';
import { RpcFailure, rpcErrorOf } from './rpc-failure.js';
import { RuntimeKit } from './runtime-kit.js';
import { commitCheckpoints, saveCheckpoints } from './save-checkpoints.js';

/** The items of one run. `frameStep`: what their frame is known by, where they follow others of the same frame; `mayClose`: closingItem may be added. */
type RunItems = { runId: string; items: readonly FrameItem[]; frameStep?: FrameStep; mayClose?: boolean };

/** Handlers that run an action, read what texts and conditions may see, or write mail: their statements may fail where the run's own do not. */
const READS_WIDELY: ReadonlySet<RuntimePattern> = new Set([
  'automation.runtime.action.execute',
  'automation.runtime.run.advance',
  'automation.runtime.run.notify-failed',
]);

type ItemReply = { reply: RuntimeReply } | { error: RpcError };
type RunAnswer = { replies: ItemReply[]; followed?: ItemReply[] };

/**
 * Runs the items of each run in order. Runs that come at the same time share a transaction (frame-lanes.ts); one that cannot share it, because
 * it writes more than rows of its own or because a handler of it throws, is handled again in one of its own, and a shared one that fails
 * is repeated one by one, so that a run at fault fails alone. Nobody is answered before the commit.
 *
 * What stands before a refusal is committed; a refusal or a rest ends the items; a handler that throws undoes only itself and ends them
 * too. Items after a `prepare` or an `advance` may leave out epoch and seq and take them from its answer.
 * A frame is only transport: each call may also come alone, as a frame of one item.
 */
@Injectable()
export class FrameRunner {
  constructor(
    private readonly source: DataSource,
    @Inject(VITAL_SOURCE) private readonly vital: DataSource,
    private readonly queues: Queues,
    private readonly kit: RuntimeKit,
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  private readonly known = new KnownRuns();

  /** One run is handled once at a time, so that a repeated frame finds what the first one committed. */
  private readonly oneAtATime = new OneAtATime();
  private readonly handleRun = createLanes<RunItems, ItemReply[]>({
    together: (runs) => this.together(runs),
    alone: (run) => this.alone(run),
    refuse: (error) => (databaseFault(error) === 'away' ? [{ error: this.toError(error) }] : null),
  });

  /** One call alone. Throws an RpcError of the catalogue. */
  async call(pattern: RuntimePattern, data: Record<string, unknown>): Promise<RuntimeReply> {
    const {
      replies: [answer],
    } = await this.runItems([{ pattern, data }], new Pace(0, () => true));
    if (!answer) throw new Error('A call was not answered');
    if ('error' in answer) throw new RpcFailure(answer.error);
    return answer.reply;
  }

  /** The runs of a frame know nothing of each other: one that fails takes no other with it. `isAsked`: does somebody still wait for the answer? */
  async frame({ runs, following = 0 }: Pick<Frame, 'runs' | 'following'>, isAsked: () => boolean): Promise<FrameReply> {
    const renewals = runs.flatMap(({ items }) => (items.length === 1 ? items : [])).filter(isRenewal);
    const renewed = await renewLeases(this.vital, renewals, this.kit.settings.leaseMs).catch((error: unknown) => {
      throw new RpcFailure(this.toError(error));
    });
    const pace = new Pace(following, isAsked);
    const answers = await Promise.all(
      runs.map(async ({ items }): Promise<RunAnswer> => {
        const only = items[0];
        if (only && isRenewal(only) && items.length === 1) return { replies: [renewed.get(only) ?? { reply: refused('unknown_run') }] };
        return this.runItems(items, pace);
      }),
    );
    // Nobody could be served: said of the frame as a whole, so that the client sends it again and no outcome in hand is lost.
    if (renewals.length === 0 && runs.length > 0 && answers.every(({ replies }) => isUnavailable(replies[0]))) {
      throw new RpcFailure({ code: 'unavailable', detail: ERRORS.unavailable.title });
    }
    return { v: 1, runs: answers } as unknown as FrameReply;
  }

  private async runItems(items: readonly FrameItem[], pace: Pace): Promise<RunAnswer> {
    const read = readItems(items);
    if ('error' in read) return { replies: [read] };
    const only = items[0];
    if (only && isRenewal(only)) return { replies: [await this.renewAlone(only)] };
    return this.oneAtATime.do(read.runId, async () => {
      const { replies, closed } = await this.commit({ runId: read.runId, items, mayClose: pace.goesOn });
      if (only?.pattern === 'automation.runtime.run.prepare') this.queues.noteClaim();
      if (closed) return { replies, followed: closed };
      const frameStep = only && frameStepOf(only.data, replies[0]);
      return frameStep ? this.goOn(frameStep, replies, pace) : { replies };
    });
  }

  /**
   * Goes on with the run while it may. A step that nobody could serve, or that somebody else has taken (the frame came a second time, to another
   * backend), leaves the frame unanswered: sent again, it is answered with where the run stands, and goes on there.
   */
  private async goOn(frameStep: FrameStep, replies: ItemReply[], pace: Pace): Promise<RunAnswer> {
    let last = replies;
    for (let nth = 1; pace.allows(nth); nth += 1) {
      const items = followingItems(frameStep, last);
      if (!items) break;
      const committed = await this.commit({ runId: frameStep.runId, items, frameStep, mayClose: true });
      if (committed.closed) return { replies, followed: committed.closed };
      last = committed.replies;
      if (isUnavailable(last[0]) || isRefusal(last[0])) return { replies: [{ error: { code: 'unavailable', detail: ERRORS.unavailable.title } }] };
    }
    pace.note(last);
    return last === replies ? { replies } : { replies, followed: last };
  }

  /** Handles the items of a run in one commit. `closed`: the answer to the closing item, where one was added. */
  private async commit(run: RunItems): Promise<{ replies: ItemReply[]; closed?: ItemReply[] }> {
    const answers = await this.handleRun(run);
    this.kit.failPoints.reach('frame.after-commit');
    for (const point of pointsAfter(answers)) this.kit.failPoints.reach(point);
    const count = run.items.length;
    return answers.length > count ? { replies: answers.slice(0, count), closed: answers.slice(count) } : { replies: answers };
  }

  private async together(runs: readonly RunItems[]): Promise<(ItemReply[] | typeof ALONE)[]> {
    let saved: Checkpoint[] = [];
    const answers = await transactAndTell(this.source, this.queues, async (tx) => {
      const locked = await lockRuns(
        tx,
        runs.map(({ runId }) => runId),
        this.known,
      );
      const checkpoints = new Map(locked.map((checkpoint) => [checkpoint.run.id, checkpoint]));
      // All come to their end, so that no statement of one follows the rollback that another asks for.
      const handled = await Promise.allSettled(runs.map((run) => this.handleInCompany(tx, checkpoints.get(run.runId), run)));
      const answers = handled.map((one) => {
        if (one.status === 'rejected') throw one.reason;
        return one.value;
      });
      saved = runs.flatMap(({ runId }, index) => (answers[index] === ALONE ? [] : [checkpoints.get(runId) as Checkpoint]));
      this.kit.failPoints.reach('frame.before-commit');
      await commitCheckpoints(tx, saved);
      return answers;
    });
    this.known.keep(saved);
    return answers;
  }

  /** Answers ALONE for a run that was not locked, or that must leave; throws when it cannot leave any more, or when nobody can go on. */
  private async handleInCompany(tx: Tx, checkpoint: Checkpoint | undefined, run: RunItems): Promise<ItemReply[] | typeof ALONE> {
    if (!checkpoint) return ALONE;
    try {
      return await this.handleInOrder(checkpoint, run);
    } catch (error) {
      if (checkpoint.hasActed || error instanceof QueryFailedError || databaseFault(error) !== null) throw error;
      dropWakeUps(tx, new Set([checkpoint.run.id]));
      return ALONE;
    }
  }

  private async alone(run: RunItems): Promise<ItemReply[]> {
    const answers = await this.inOneTransaction(run);
    const [first] = answers;
    if (first && 'error' in first && first.error.code === 'internal')
      await this.countFailure(run.runId, run.items[0]).catch((fault: unknown) => this.toError(fault));
    return answers;
  }

  private async inOneTransaction(run: RunItems): Promise<ItemReply[]> {
    try {
      let saved: Checkpoint[] = [];
      const answers = await transactAndTell(this.source, this.queues, async (tx): Promise<ItemReply[]> => {
        const checkpoint = await lockRun(tx, run.runId);
        if (!checkpoint) return [{ reply: refused('unknown_run') }];
        const replies = await this.handleInOrder(checkpoint, run);
        saved = [checkpoint];
        this.kit.failPoints.reach('frame.before-commit');
        await commitCheckpoints(tx, saved);
        return replies;
      });
      this.known.keep(saved);
      return answers;
    } catch (error) {
      return [{ error: this.toError(error) }];
    }
  }

  private async renewAlone(item: FrameItem): Promise<ItemReply> {
    try {
      return (await renewLeases(this.vital, [item], this.kit.settings.leaseMs)).get(item) ?? { reply: refused('unknown_run') };
    } catch (error) {
      return { error: this.toError(error) };
    }
  }

  /** A claim that cannot even be given out is counted like a take-over, so that such a run is given up some day and not tried for ever. */
  private async countFailure(runId: string, first: FrameItem | undefined): Promise<void> {
    if (first?.pattern !== 'automation.runtime.run.prepare') return;
    await transactAndTell(this.source, this.queues, async (tx) => {
      const checkpoint = await lockRun(tx, runId);
      if (!checkpoint || checkpoint.run.claimId !== first.data['claimId'] || isEnded(checkpoint.run.state)) return;
      await countFailedClaim(checkpoint, this.kit);
      await saveCheckpoints(tx, [checkpoint]);
    });
  }

  private async handleInOrder(checkpoint: Checkpoint, { items, frameStep, mayClose = false }: RunItems): Promise<ItemReply[]> {
    const replies: ItemReply[] = [];
    let at: { epoch: number; seq: number } | undefined;
    for (let nth = 0; nth <= items.length; nth += 1) {
      const item = items[nth] ?? (mayClose ? await closingItem(checkpoint, { ...at, ...items.at(-1)?.data }, replies, this.kit) : null);
      if (!item) break;
      const { pattern, data } = item;
      const request = { ...at, ...data };
      // Who shares the transaction leaves it with a failed item, and nothing of it is kept.
      const before = checkpoint.group.isShared ? null : snapshot(checkpoint);
      const handled = await this.handle(checkpoint, pattern, request);
      if (!handled.ok) {
        if (before === null) throw handled.error;
        restore(checkpoint, before);
        replies.push({ error: this.toError(handled.error) });
        break;
      }
      const reply = handled.value;
      replies.push({ reply });
      if (reply.kind === 'claimed' || reply.kind === 'advanced') at = { epoch: checkpoint.run.epoch, seq: reply.seq };
      if (reply.kind === 'refused' || reply.kind === 'rests' || reply.kind === 'not_due' || reply.kind === 'held') break;
    }
    // Only what changed the run is a frame whose repeat must be known.
    const last = frameStep ?? frameStepOf(items[0]?.data ?? {}, replies[0]);
    if (last && (checkpoint.isRunChanged || checkpoint.written.size > 0)) {
      changeRun(checkpoint, { lastClaimId: last.claimId, lastEpoch: last.epoch, lastSeq: last.seq });
    }
    return replies;
  }

  /**
   * A savepoint keeps what stands before alive when a statement of the handler fails; handlers that only look at the run have none, and a
   * statement of theirs that fails takes the whole transaction along. It is thrown then, so that its own fault is answered for all items, and not
   * that of the next statement, which the aborted transaction refuses.
   */
  private async handle(
    checkpoint: Checkpoint,
    pattern: RuntimePattern,
    request: object,
  ): Promise<{ ok: true; value: RuntimeReply } | { ok: false; error: unknown }> {
    const work = (): Promise<RuntimeReply> => HANDLERS[pattern](checkpoint, request as never, this.kit);
    if (!checkpoint.group.isShared && READS_WIDELY.has(pattern)) return attempt(checkpoint.tx, work);
    try {
      return { ok: true, value: await work() };
    } catch (error) {
      if (error instanceof QueryFailedError) throw error;
      return { ok: false, error };
    }
  }

  private toError(error: unknown): RpcError {
    return rpcErrorOf(error, this.log);
  }
}

function isRefusal(answer: ItemReply | undefined): boolean {
  return answer !== undefined && 'reply' in answer && answer.reply.kind === 'refused';
}

function isUnavailable(answer: ItemReply | undefined): boolean {
  return answer !== undefined && 'error' in answer && answer.error.code === 'unavailable';
}
