/**
 * Onward's own processes as `npm start` runs them: which file, and what to do when.
 *
 * The backend comes first and is waited for, since the others have nothing to do before it answers; they stop before it,
 * so that what they hold can still be recorded.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CHECKOUT } from './instance.js';
import { NODE_ARGUMENTS } from './node-arguments.js';
import { type Supervised, supervise } from './supervisor.js';
import type { Teardown } from './teardown.js';
import type { TerminalLog } from './terminal-log.js';
import { waitUntilReady } from './wait-until-ready.js';

type ProcessPlan = {
  readonly name: string;
  readonly folder: string;
  /** Settings it has no business with: no worker holds a way into the database or to the stored secrets. */
  readonly withheld: readonly string[];
};

/** Longer than any of them gives itself to drain and close. */
const STOP_WITHIN_MS = 30_000;

const BACKENDS_OWN = ['DATABASE_URL', 'ONWARD_SECRET_KEY', 'ONWARD_FIRST_KEY_FILE'];

export const BACKEND: ProcessPlan = { name: 'backend', folder: 'apps/backend', withheld: [] };
const BEHIND_BACKEND: readonly ProcessPlan[] = [
  { name: 'automation-worker', folder: 'packages/automation-worker', withheld: [...BACKENDS_OWN, 'SMTP_URL'] },
  { name: 'mail-gateway', folder: 'packages/mail-gateway', withheld: BACKENDS_OWN },
];

export type ProcessesPlan = {
  readonly env: Readonly<Record<string, string>>;
  readonly runDir: string;
  readonly terminal: TerminalLog;
  readonly teardown: Teardown;
  readonly backendUrl: string;
  /** Resolves when the start should be given up. */
  readonly givenUp: AbortSignal;
};

/** Resolves when the backend is ready and the others are started. Throws when it does not get ready. */
export async function startProcesses(plan: ProcessesPlan): Promise<readonly Supervised[]> {
  const backend = await startOne(BACKEND, plan);
  await plan.teardown.add(() => backend.stop());
  await waitUntilReady(`${plan.backendUrl}/health/ready`, plan.givenUp);
  const behind = await Promise.all(BEHIND_BACKEND.map((one) => startOne(one, plan)));
  await plan.teardown.add(() => Promise.all(behind.map((one) => one.stop())));
  return [backend, ...behind];
}

async function startOne({ name, folder, withheld }: ProcessPlan, { env, runDir, terminal }: ProcessesPlan): Promise<Supervised> {
  const cwd = join(CHECKOUT, folder);
  const main = join(cwd, 'dist/main.js');
  if (!existsSync(main)) throw new Error(`${main} is missing: build it first (npm start does)`);
  const own = Object.fromEntries(Object.entries(env).filter(([setting]) => !withheld.includes(setting)));
  return supervise({ name, args: [...NODE_ARGUMENTS, main], env: own, cwd, log: terminal.of(name), runDir, stopWithinMs: STOP_WITHIN_MS });
}
