/** What the command line asks for. */
export type Plan = {
  /** What to measure: `P1`, `L2`, …, or a word that stands for a letter; empty: everything. */
  only: readonly string[];
  isQuick: boolean;
  repetitions: number;
  /** The folder in which n8n is installed, when one is named. */
  n8n: string | undefined;
};

/** What stands for all ids of a letter. */
const WORDS: Readonly<Record<string, string>> = { LIMITS: 'L', GROWTH: 'G', MIXED: 'M' };
const LAST: Readonly<Record<string, number>> = { P: 17, L: 6, G: 7, M: 5 };

export const USAGE = 'Usage: pnpm bench [--only P1,L2,growth] [--quick] [--reps N] [--n8n FOLDER]';

const KNOWN = [...Object.entries(LAST).map(([letter, last]) => `${letter}1 to ${letter}${last}`), ...Object.keys(WORDS).map((word) => word.toLowerCase())].join(
  ', ',
);

/** Throws an Error with the usage for what it does not know. `--quick` alone means one repetition, else three. */
export function readArguments(words: readonly string[]): Plan {
  const rest = [...words];
  let only: string[] = [];
  let isQuick = false;
  let repetitions: number | undefined;
  let n8n: string | undefined;
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--quick') isQuick = true;
    else if (word === '--only') only = (rest.shift() ?? '').split(',').map((id) => id.trim().toUpperCase());
    else if (word === '--reps') repetitions = Number(rest.shift());
    else if (word === '--n8n' && rest[0] !== undefined) n8n = rest.shift();
    else throw new Error(`Not known: ${word}\n${USAGE}`);
  }
  if (!only.every(isKnown)) throw new Error(`--only takes, parted by commas, ${KNOWN}\n${USAGE}`);
  if (repetitions !== undefined && !(Number.isInteger(repetitions) && repetitions > 0 && repetitions <= 100)) {
    throw new Error(`--reps takes a whole number from 1 to 100\n${USAGE}`);
  }
  return { only, isQuick, repetitions: repetitions ?? (isQuick ? 1 : 3), n8n };
}

/** Whether an id of a row, such as `P3 pg-boss`, is among what `only` names. */
export function isAsked(only: readonly string[], id: string): boolean {
  const number = id.split(' ', 1)[0] ?? '';
  return only.length === 0 || only.some((one) => one === number || WORDS[one] === number.charAt(0));
}

function isKnown(word: string): boolean {
  const number = Number(/^[A-Z]([1-9]\d?)$/.exec(word)?.[1]);
  return Object.hasOwn(WORDS, word) || number <= (LAST[word.charAt(0)] ?? 0);
}
