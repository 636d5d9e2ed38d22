import { describe, expect, it } from 'vitest';
import { failed, judge } from '../src/judge.js';
import { median, percentile } from '../src/median.js';
import { parsePss, parseStat } from '../src/proc.js';
import { isAsked, readArguments } from '../src/read-arguments.js';
import type { Target } from '../src/target.js';
import { toRecord, writeTable } from '../src/write-table.js';

const ratio: Target = { id: 'P1', what: 'steps', unit: 'steps/s', judged: 'ratio', better: 'higher', must: 6, aim: 12, against: 'a peer' };
const value: Target = { id: 'P5', what: 'CPU', unit: 's', judged: 'value', better: 'lower', must: 0.3, aim: 0.12 };

describe('order statistics', () => {
  it('takes the middle value, or the mean of the middle two', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(median([])).toBeNaN();
  });

  it('takes the smallest value that the share does not exceed', () => {
    const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentile(hundred, 0.99)).toBe(99);
    expect(percentile(hundred, 1)).toBe(100);
    expect(percentile([7], 0.5)).toBe(7);
  });
});

describe('what Linux says of a process', () => {
  it('counts its CPU and that of its ended children, whatever its name holds', () => {
    const text = `42 (a) (b c) S 7 ${Array(9).fill(0).join(' ')} 100 50 20 30 0`;
    expect(parseStat(text)).toEqual({ parent: 7, cpuSeconds: 2 });
  });

  it('reads the proportional set size and not its parts', () => {
    expect(parsePss('Rss:  900 kB\nPss:                 512 kB\nPss_Dirty:    1 kB\n')).toBe(512 * 1024);
    expect(parsePss('')).toBe(0);
  });
});

describe('the command line', () => {
  it('asks for everything three times unless told otherwise', () => {
    expect(readArguments([])).toEqual({ only: [], isQuick: false, repetitions: 3, n8n: undefined });
    expect(readArguments(['--only', 'p1, P17', '--quick'])).toEqual({ only: ['P1', 'P17'], isQuick: true, repetitions: 1, n8n: undefined });
    expect(readArguments(['--quick', '--reps', '5']).repetitions).toBe(5);
    expect(readArguments(['--n8n', '/opt/n8n']).n8n).toBe('/opt/n8n');
  });

  it('refuses what it does not know', () => {
    for (const words of [
      ['--fast'],
      ['--only'],
      ['--n8n'],
      ['--only', 'P18'],
      ['--only', 'L7'],
      ['--only', 'P01'],
      ['--only', 'X1'],
      ['--reps', '0'],
      ['--reps', '1.5'],
    ])
      expect(() => readArguments(words)).toThrow('Usage');
  });
});

describe('what is asked for', () => {
  it('is everything, the rows of a number, or all of a letter by its word', () => {
    expect(isAsked([], 'P3 pg-boss')).toBe(true);
    expect(isAsked(['P3'], 'P3 pg-boss')).toBe(true);
    expect(isAsked(['P1'], 'P16 batch')).toBe(false);
    expect(isAsked(readArguments(['--only', 'limits']).only, 'L4 bulk')).toBe(true);
    expect(isAsked(readArguments(['--only', 'limits']).only, 'P4')).toBe(false);
  });
});

describe('the judgement', () => {
  it('holds the median of the ratios of each repetition against must and aim', () => {
    const row = judge(ratio, { id: 'P1', values: [60, 140, 90], against: [10, 10, 5] });
    expect(row.ratio).toEqual({ median: 14, min: 6, max: 18 });
    expect(row.verdict).toBe('aim met');
  });

  it('passes at the must itself, and fails beyond it', () => {
    expect(judge(value, { id: 'P5', values: [0.3] }).verdict).toBe('pass');
    expect(judge(value, { id: 'P5', values: [0.31] }).verdict).toBe('fail');
    expect(judge(ratio, { id: 'P1', values: [59], against: [10] }).verdict).toBe('fail');
  });

  it('calls what has no values not run, and what threw failed', () => {
    expect(judge(value, undefined).verdict).toBe('not run');
    expect(toRecord(judge(value, undefined)).pass).toBeNull();
    expect(toRecord(judge({ ...value, must: null }, { id: 'P5', values: [9] })).pass).toBeNull();
    expect(toRecord(failed(value, new Error('lost 3')))).toMatchObject({ pass: false, note: 'lost 3' });
  });
});

describe('the table', () => {
  it('writes a row with the spread, the bounds and the verdict', () => {
    const table = writeTable([judge(ratio, { id: 'P1', values: [1234.5, 2000, 1000], against: [100, 100, 100] }), failed(value, new Error('a | b'))]);
    expect(table.split('\n').slice(2)).toEqual([
      '| P1 | steps | 1,235 [1,000..2,000] steps/s | a peer: 100 | 12.3 [10..20]× | ≥ 6× | ≥ 12× | aim met |',
      '| P5 | CPU | – | – | – | ≤ 0.3 | ≤ 0.12 | **fail**: a \\| b |',
    ]);
  });
});
