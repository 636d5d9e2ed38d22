import { Injectable } from '@nestjs/common';
import type { Json } from '@onward/contracts/json';
import type { Tx } from '../database/sql.js';

/** Something that happened, as it is handed to the listener. `id` is unique; `contactId` is null when it concerns nobody. */
export type EmittedEvent = {
  id: string;
  type: string;
  contactId: string | null;
  payload: Record<string, Json>;
  occurredAt: Date;
  depth: number;
};

/** What the listener did with an event: a run or a recorded refusal for each matching workflow. */
export type Dispatch = { workflowId: string; runId: string } | { workflowId: string; refused: string };

export type EventListener = {
  /** Is there anything that a stored event of this type could start or wake? */
  wants(tx: Tx, type: string): Promise<boolean>;
  /** Called inside the emitter's transaction, after the event row is written. Never throws for a fault of one workflow. */
  dispatch(tx: Tx, event: EmittedEvent): Promise<Dispatch[]>;
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
