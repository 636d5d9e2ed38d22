/**
 * What has been started, so that it can be stopped in the opposite order, also when the start is interrupted half-way.
 *
 * A part that comes up after the stop began is stopped at once and the start learns of it by `Interrupted`. A stop that
 * fails is reported and the rest still stopped.
 */
import type { Log } from './log.js';

export class Interrupted extends Error {
  constructor() {
    super('stopped before everything was started');
    this.name = 'Interrupted';
  }
}

export type Teardown = {
  /** Registers how to stop what has just been started. Throws Interrupted, after stopping it, when the stop has begun. */
  add(stop: () => Promise<unknown>): Promise<void>;
  /** Stops everything, newest first. */
  run(): Promise<void>;
};

export function createTeardown(log: Log): Teardown {
  const stops: (() => Promise<unknown>)[] = [];
  let hasBegun = false;
  const stopOne = async (stop: () => Promise<unknown>): Promise<void> => {
    try {
      await stop();
    } catch (error) {
      log(error instanceof Error ? error.message : String(error));
    }
  };
  return {
    add: async (stop) => {
      if (!hasBegun) return void stops.push(stop);
      await stopOne(stop);
      throw new Interrupted();
    },
    run: async () => {
      hasBegun = true;
      for (let stop = stops.pop(); stop !== undefined; stop = stops.pop()) await stopOne(stop);
    },
  };
}
