import type { Json } from '@onward/contracts/json';
import type { Outcome } from '@onward/contracts/outcome';
import type { z } from 'zod';
import type { Tx } from '../database/sql.js';
import type { Scope } from '../runtime/scope.js';
import type { FrozenRequest } from '../secrets/frozen-request.js';

/** The contact as it is at the step, and not as it was when the run began. */
export type StepContact = { id: string; externalId: string | null; email: string | null; emailProblem: string | null; attributes: Record<string, Json> };

/**
 * What an action is given. All it writes goes through `tx`, which also commits its outcome. An action that takes `tx` has a transaction to
 * itself; `executeMany` is given one for all.
 */
export type Step<Config> = {
  tx: Tx;
  runId: string;
  seq: number;
  n: number;
  node: string;
  workflowId: string;
  config: Config;
  contactId: string | null;
  /** Null where nothing of it is read (`readsOnlyForTexts`). */
  contact: StepContact | null;
  /** What texts and conditions may see: `contact`, `event`, `context`, `steps`, `run`, `workflow`. */
  scope: Scope;
  /** The clock of due times. */
  now: Date;
  /** For events this action emits: runs between an outside cause and them. */
  depth: number;
};

/**
 * What an action answers. `input` is kept with the attempt: the values it saw, filled in.
 * `send` hands a finished request to the worker; the runtime freezes it before it leaves.
 */
export type ActionResult = { kind: 'outcome'; outcome: Outcome; input?: Json } | { kind: 'send'; request: FrozenRequest; input?: Json };

/**
 * One action of the catalogue. `execute` returns what is foreseen as an outcome and throws only the unforeseen, which undoes what it
 * wrote. `reentry` says what a second entry does after a crash, and is tested against it.
 */
export type Action<Config> = {
  type: string;
  config: z.ZodType<Config>;
  needsContact: boolean;
  /** It fills texts that are not in its configuration, so what they look at cannot be known from it. */
  readsTemplates?: true;
  /** Does it, so configured, look at the scope only to fill texts of its configuration, and at nothing of the contact but its id? Without such texts neither is read. */
  readsOnlyForTexts?(config: Config): boolean;
  performedBy: 'backend' | 'worker';
  reentry: string;
  execute(step: Step<Config>): Promise<ActionResult>;
  /**
   * The same for the steps of many runs at once, answered in their order; instead of `execute` where it is there. One that throws is undone
   * with all that shared the transaction, and each of them is performed again alone.
   */
  executeMany?(tx: Tx, steps: readonly Step<Config>[]): Promise<ActionResult[]>;
  /** The secrets that a configuration names: in which field, and to which origin they go as it is written. */
  namesSecrets?(config: Config): { name: string; path: string[]; origin: string }[];
};
