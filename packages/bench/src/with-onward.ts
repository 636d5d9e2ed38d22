/** Starts an Onward for `work` and ends it, whatever becomes of the work. */
import { type Onward, type OnwardPlan, startOnward } from './onward.js';

export async function withOnward<Result>(plan: OnwardPlan, work: (onward: Onward) => Promise<Result>): Promise<Result> {
  const onward = await startOnward(plan);
  try {
    return await work(onward);
  } finally {
    await onward.close();
  }
}
