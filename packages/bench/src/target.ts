import type { Servers } from './servers.js';

/** A figure that is measured, and what it must come to. */
export type Target = {
  /** `P1`, or `P3 pg-boss` where one number has several rows; the first word is what `--only` names. */
  id: string;
  what: string;
  unit: string;
  /** What is held against must and aim: the value itself, or its ratio to what it is measured against. */
  judged: 'value' | 'ratio';
  better: 'higher' | 'lower';
  /** null: only reported. */
  must: number | null;
  aim: number | null;
  /** For people: what `against` is. */
  against?: string;
};

/** What was measured for a target: one value a repetition, and beside each that of what it is measured against. */
export type Sample = { id: string; values: readonly number[]; against?: readonly number[]; note?: string };

export type Spread = { median: number; min: number; max: number };
export type Verdict = 'aim met' | 'pass' | 'fail' | 'not run' | 'reported';
export type Row = {
  target: Target;
  verdict: Verdict;
  value: Spread | null;
  against: Spread | null;
  /** Of each repetition's pair; not of the medians. */
  ratio: Spread | null;
  note: string;
};

/** Targets that come out of one measuring. One without a sample, or with a sample without values, was not run; the note says why. */
export type Group = {
  targets: readonly Target[];
  /** `wanted`: the ids asked for; others may be left out. Throws when the measuring cannot be trusted. */
  measure(bench: Bench, wanted: ReadonlySet<string>): Promise<readonly Sample[]>;
};

export type Bench = {
  servers: Servers;
  /** The Node that everything measured runs on. */
  node: string;
  path: string;
  /** The folder in which somebody installed n8n, or null. */
  n8n: string | null;
  isQuick: boolean;
  repetitions: number;
  /** Runs in a burst. */
  runs: number;
  /** Hears all samples of the group as they are so far, for the table of a measuring that is interrupted. */
  keep(samples: readonly Sample[]): void;
  say(line: string): void;
};
