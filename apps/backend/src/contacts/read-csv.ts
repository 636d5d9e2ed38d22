import { setImmediate } from 'node:timers/promises';
import { invalidField, Problem } from '../http/problem.js';
import { type CsvRow, parseCsv } from './parse-csv.js';

export const CSV_DELIMITERS = { comma: ',', semicolon: ';', tab: '\t' } as const;
export type CsvDelimiter = keyof typeof CSV_DELIMITERS | 'auto';

const MAX_COLUMNS = 250;
/** Rows read before others get a turn. */
const ROWS_AT_A_STRETCH = 1_000;

/**
 * Reads a CSV with a header row: UTF-8, or UTF-16 with its mark, as spreadsheets write it; fields parted by comma, semicolon or tab,
 * whichever the header uses. A row that cannot be read is given with its reason and the rest goes on. Throws Problem for a text without
 * a header, or in another encoding.
 */
export async function* readCsv(bytes: Buffer, delimiter: CsvDelimiter, onHeader: (header: string[]) => void): AsyncGenerator<CsvRow> {
  const text = decode(bytes);
  const records = parseCsv(text, delimiter === 'auto' ? guessDelimiter(text) : CSV_DELIMITERS[delimiter]);
  const first = records.next();
  if (first.done) throw new Problem('malformed', 'The file is empty; its first row must name the columns');
  if ('reason' in first.value) throw new Problem('malformed', `The header row cannot be read: ${first.value.reason}`);
  const width = first.value.cells.length;
  if (width > MAX_COLUMNS) throw new Problem('malformed', `The file has more than ${MAX_COLUMNS} columns`);
  onHeader(first.value.cells);

  let count = 0;
  for (const row of records) {
    if (++count % ROWS_AT_A_STRETCH === 0) await setImmediate();
    if ('reason' in row) yield row;
    else if (row.cells.every((cell) => cell === '')) continue;
    else if (row.cells.length > width) yield { line: row.line, reason: `has ${row.cells.length} fields, the header has ${width}` };
    else yield row;
  }
}

/** Where the named columns stand. Throws Problem when a name is empty or there twice, since one of the two would be lost. */
export function columnsOf(header: string[], nameOf: (written: string) => string): Map<string, number> {
  const columns = new Map<string, number>();
  for (const [index, written] of header.entries()) {
    const name = nameOf(written);
    if (name === '') throw invalidField('header', `column ${index + 1} has no name`);
    if (columns.has(name)) throw invalidField('header', `the column "${name.slice(0, 100)}" is there twice`);
    columns.set(name, index);
  }
  return columns;
}

function decode(bytes: Buffer): string {
  const encoding = bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : 'utf-8';
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    throw new Problem('malformed', 'The file is not in UTF-8; save it as "CSV UTF-8" and send it again');
  }
}

/** The one that stands most often in the first line, outside quotes. */
function guessDelimiter(text: string): (typeof CSV_DELIMITERS)[keyof typeof CSV_DELIMITERS] {
  const firstLine = /^[^\r\n]*/.exec(text.trimStart())?.[0].replace(/"[^"]*"/g, '') ?? '';
  const count = (delimiter: string): number => firstLine.split(delimiter).length;
  return Object.values(CSV_DELIMITERS).reduce((best, delimiter) => (count(delimiter) > count(best) ? delimiter : best));
}
