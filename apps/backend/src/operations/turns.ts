/** BullMQ's lowest priority; the turns of a queue that never runs empty end here. */
const LAST_TURN = 2 ** 21 - 1;

/**
 * The turns in which the workflows' runs are handed out, so that a crowd of one keeps no other waiting: the next run of a workflow comes one turn after
 * its last one, and of a workflow that has none on the queue at the turn the queue has come to. In one turn each workflow has one run, whatever stands
 * behind it (start-time fair queueing, Goyal, Vin and Cheng 1996). Kept in memory: each backend gives out turns of its own, and all read from the queue
 * where it has come to.
 */
export class Turns {
  private current = 0;
  private readonly last = new Map<string, number>();

  /** How many runs of the workflow come after the current turn; without end when there is no later turn to give. */
  ahead(workflowId: string): number {
    const next = this.next(workflowId);
    return next > LAST_TURN ? Number.POSITIVE_INFINITY : next - this.current;
  }

  /** The turn of the workflow's next run: 0 comes first. */
  take(workflowId: string): number {
    const turn = this.next(workflowId);
    this.last.set(workflowId, turn);
    return Math.min(turn, LAST_TURN);
  }

  /**
   * The first and the last turn that were seen on the queue; `null`: nothing stands in turn, and all begin anew. So they do when the queue `ranEmpty` since
   * it was seen last, or when all that stands there is behind the turns known here: another backend has seen it run empty, and this one has not.
   */
  note(seen: { first: number; last: number } | null, ranEmpty = false): void {
    if (seen === null || ranEmpty || seen.last < this.current) {
      this.current = seen?.first ?? 0;
      this.last.clear();
      return;
    }
    this.current = Math.max(this.current, seen.first);
    for (const [workflowId, last] of this.last) if (last < this.current) this.last.delete(workflowId);
  }

  private next(workflowId: string): number {
    return Math.max(this.current, (this.last.get(workflowId) ?? -1) + 1);
  }
}
