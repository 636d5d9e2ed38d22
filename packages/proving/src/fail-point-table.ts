/**
 * Each fail point with the process that reaches it, and at which time a run of a few journeys is well on its way there. The fault suite kills at each.
 */
export type Killing = { process: 'backend' | 'worker' | 'gateway'; failPoint: string; at: number };

export const KILLINGS: readonly Killing[] = [
  { process: 'backend', failPoint: 'event.before-commit', at: 3 },
  { process: 'backend', failPoint: 'commit.before-enqueue', at: 5 },
  { process: 'backend', failPoint: 'commit.after-enqueue', at: 5 },
  { process: 'backend', failPoint: 'frame.before-commit', at: 5 },
  { process: 'backend', failPoint: 'frame.after-commit', at: 5 },
  { process: 'backend', failPoint: 'claim.after-commit', at: 3 },
  { process: 'backend', failPoint: 'intent.after-commit', at: 3 },
  { process: 'backend', failPoint: 'outcome.before-advance', at: 3 },
  { process: 'backend', failPoint: 'outcome.after-commit', at: 3 },
  { process: 'backend', failPoint: 'wait.after-commit', at: 3 },
  { process: 'backend', failPoint: 'wait.due', at: 3 },
  { process: 'backend', failPoint: 'action.before-effect', at: 5 },
  { process: 'backend', failPoint: 'action.after-effect', at: 5 },
  { process: 'backend', failPoint: 'mail.after-begin', at: 2 },
  { process: 'backend', failPoint: 'mail.after-end', at: 2 },
  { process: 'backend', failPoint: 'mail-results.before-store', at: 2 },
  { process: 'backend', failPoint: 'mail-results.after-store', at: 2 },
  { process: 'worker', failPoint: 'worker.before-send', at: 3 },
  { process: 'worker', failPoint: 'worker.after-send', at: 3 },
  { process: 'worker', failPoint: 'worker.before-record', at: 3 },
  { process: 'gateway', failPoint: 'mail.before-smtp', at: 2 },
  { process: 'gateway', failPoint: 'mail.after-smtp', at: 2 },
];
