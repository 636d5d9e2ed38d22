/** The rows as a Markdown table for people, and as the records of latest.json. */
import type { Row, Spread } from './target.js';

const HEAD = ['id', 'what', 'value', 'against', 'ratio', 'must', 'aim', ''] as const;

export function writeTable(rows: readonly Row[]): string {
  const lines = rows.map(({ target, verdict, value, against, ratio, note }) => {
    const bound = (limit: number | null) =>
      limit === null ? '–' : `${target.better === 'higher' ? '≥' : '≤'} ${round(limit)}${target.judged === 'ratio' ? '×' : ''}`;
    return [
      target.id,
      target.what,
      value === null ? '–' : `${spread(value)} ${target.unit}`,
      against === null ? (target.against ?? '–') : `${target.against}: ${spread(against)}`,
      ratio === null ? '–' : `${spread(ratio)}×`,
      bound(target.must),
      bound(target.aim),
      `${verdict === 'fail' ? '**fail**' : verdict}${note === '' ? '' : `: ${note}`}`,
    ];
  });
  return [HEAD, HEAD.map(() => '---'), ...lines].map((cells) => `| ${cells.map(escape).join(' | ')} |`).join('\n');
}

/** `pass` is null for what was not run and for what is only reported. */
export function toRecord({ target, verdict, value, against, ratio, note }: Row) {
  return {
    id: target.id,
    what: target.what,
    value: value?.median ?? null,
    min: value?.min ?? null,
    max: value?.max ?? null,
    unit: target.unit,
    against: against?.median ?? null,
    againstWhat: target.against ?? null,
    ratio: ratio?.median ?? null,
    must: target.must,
    aim: target.aim,
    judged: target.judged,
    pass: verdict === 'not run' || verdict === 'reported' ? null : verdict !== 'fail',
    isAimMet: verdict === 'aim met',
    note,
  };
}

/** Three digits, or whole from a hundred on. */
export function round(value: number): string {
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)));
}

const spread = ({ median, min, max }: Spread): string => (min === max ? round(median) : `${round(median)} [${round(min)}..${round(max)}]`);
const escape = (cell: string): string => cell.replaceAll('|', '\\|').replaceAll('\n', ' ');
