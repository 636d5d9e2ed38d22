import { Injectable } from '@nestjs/common';
import type { Json } from '@onward/contracts/json';
import type { Statement, Tx } from '../database/sql.js';

/** The contact of an event as it stood then. */
export type EventContact = { id: string; externalId: string | null; email: string | null; emailProblem: string | null; attributes: Record<string, Json> };

/**
 * Something that happened, as it is handed to the listener. `id` is unique; `contactId` is null when it concerns nobody. `contact` is given by who
 * has it in hand; otherwise the listener reads it as it is now.
 */
export type EmittedEvent = {
  id: string;
  type: string;
  contactId: string | null;
  contact?: EventContact | undefined;
  payload: Record<string, Json>;
  occurredAt: Date;
  depth: number;
};

/** What the listener did with an event: a run or a recorded refusal for each matching workflow. */
export type Dispatch = { workflowId: string; runId: string } | { workflowId: string; refused: string };

/** Who waits for events of some types, as read at one moment inside a transaction; good for that transaction only. */
export type Listeners = {
  /** Is there anything that a stored event of this type could start or wake? */
  want(type: string): boolean;
  /**
   * Called after the event rows are written; answers one for one, and what it starts it starts in the order given. A fault of one workflow is recorded as
   * its refusal and touches no other; so is, at the price of savepoints, a run that cannot be written.
   */
  dispatch(events: readonly EmittedEvent[]): Promise<Dispatch[][]>;
  /**
   * The same for events whose rows `storing` is yet to write, as the last thing in the transaction, which is committed: rows, runs and commit travel together.
   * What cannot be written is thrown, a run too; nothing is kept then, and all is to be begun anew with `dispatch`.
   */
  commit(events: readonly EmittedEvent[], storing: Statement): Promise<Dispatch[][]>;
};

export type EventListener = {
  /** Is there anything that a stored event of this type could start or wake? */
  wants(tx: Tx, type: string): Promise<boolean>;
  /** Reads who waits for events of these types, in one statement. */
  listenersOf(tx: Tx, types: readonly string[]): Promise<Listeners>;
};

/**
 * The bus between those who emit and the one listener that starts runs. It knows neither: the listener registers itself at boot
 * and is called with the emitter's transaction, so the event, its runs and what caused it commit together or not at all.
 */
@Injectable()
export class EventBus {
  private listener: EventListener | undefined;

  register(listener: EventListener): void {
    if (this.listener) throw new Error('The event bus has its listener already');
    this.listener = listener;
  }

  /** The one listener. Throws when the process is half wired. */
  get listening(): EventListener {
    if (!this.listener) throw new Error('Nobody listens on the event bus');
    return this.listener;
  }
}
