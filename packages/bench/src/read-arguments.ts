/** What the command line asks for. */
export type Plan = {
  /** Targets to measure, `P1` to `P17`; empty: all. */
  only: readonly string[];
  isQuick: boolean;
  repetitions: number;
};

export const USAGE = 'Usage: pnpm bench [--only P1,P5] [--quick] [--reps N]';

/** Throws an Error with the usage for what it does not know. `--quick` alone means one repetition, else three. */
export function readArguments(words: readonly string[]): Plan {
  const rest = [...words];
  let only: string[] = [];
  let isQuick = false;
  let repetitions: number | undefined;
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--quick') isQuick = true;
    else if (word === '--only') only = (rest.shift() ?? '').split(',').map((id) => id.trim().toUpperCase());
    else if (word === '--reps') repetitions = Number(rest.shift());
    else throw new Error(`Not known: ${word}\n${USAGE}`);
  }
  if (only.some((id) => !/^P([1-9]|1[0-7])$/.test(id))) throw new Error(`--only takes P1 to P17, parted by commas\n${USAGE}`);
  if (repetitions !== undefined && !(Number.isInteger(repetitions) && repetitions > 0 && repetitions <= 100)) {
    throw new Error(`--reps takes a whole number from 1 to 100\n${USAGE}`);
  }
  return { only, isQuick, repetitions: repetitions ?? (isQuick ? 1 : 3) };
}
