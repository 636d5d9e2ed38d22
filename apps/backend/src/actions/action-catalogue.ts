import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { LOGGER } from '../operations/logger.js';
import type { Action } from './action.js';

/** Injection token of the list of actions (actions.module.ts). */
export const ACTIONS = Symbol('actions');

/** Every action this version knows, by type. A type listed twice stops the start. */
@Injectable()
export class ActionCatalogue {
  private readonly byType = new Map<string, Action<unknown>>();

  constructor(
    @Inject(ACTIONS) actions: readonly Action<unknown>[],
    @Inject(LOGGER) private readonly log: Logger,
  ) {
    for (const action of actions) {
      if (this.byType.has(action.type)) throw new Error(`The action ${action.type} is listed twice`);
      this.byType.set(action.type, action);
    }
  }

  get(type: string): Action<unknown> | undefined {
    return this.byType.get(type);
  }

  all(): ReadonlyMap<string, Action<unknown>> {
    return this.byType;
  }

  /** A run went past something unknown without acting: an error in the log, beside the count on the run and the mark on the step. */
  noteUnknown(met: readonly { runId: string; node: string; type: string }[]): void {
    for (const one of met) this.log.error({ ...one }, 'a run met a type that this version does not know and went on without acting');
  }
}
