/**
 * Which frames share a transaction, and which have one of their own. Those that come at the same time go together (database/group-commit.ts), at most
 * MAX_TOGETHER in each of MAX_LANES transactions; what cannot be done together is done one by one, MAX_ALONE at the same time.
 *
 * Bounded by what workers have in hand: each run has one frame on its way. Nothing here knows what a frame is.
 */
import pLimit from 'p-limit';
import { createGroupCommit } from '../database/group-commit.js';

export type Lanes<Item, Answer> = {
  /** Handles many in one transaction and answers each in its place, once it has committed. Throws when nothing was committed. */
  together(items: readonly Item[]): Promise<(Answer | typeof ALONE)[]>;
  /** Handles one in a transaction of its own. What it throws, its asker is thrown. */
  alone(item: Item): Promise<Answer>;
  /** Is it of no use to try each alone after `together` threw this? Then `refuse` gives the answer. */
  refuse(error: unknown): Answer | null;
};

/** In the place of an answer: this one must be handled in a transaction of its own. */
export const ALONE = Symbol('alone');

/** Two make fuller transactions than more do, and need less CPU a step than one or three (docs/decisions/0012). */
export const MAX_LANES = 2;
export const MAX_TOGETHER = 200;
export const MAX_ALONE = 8;

/** Answers the function that handles one. */
export function createLanes<Item, Answer>({ together, alone, refuse }: Lanes<Item, Answer>): (item: Item) => Promise<Answer> {
  const share = createGroupCommit<Item, Answer | typeof ALONE>({ lanes: MAX_LANES, max: MAX_TOGETHER, flush: together });
  const placeAlone = pLimit(MAX_ALONE);

  return async (item) => {
    const answer = await share(item).catch((error: unknown) => refuse(error) ?? ALONE);
    return answer === ALONE ? placeAlone(() => alone(item)) : (answer as Answer);
  };
}
