import { type Info, parse } from 'csv-parse';
import { invalidField, Problem } from '../http/problem.js';

export const CSV_DELIMITERS = { comma: ',', semicolon: ';', tab: '\t' } as const;
export type CsvDelimiter = keyof typeof CSV_DELIMITERS | 'auto';

const MAX_COLUMNS = 250;

/** A row under its header, cells trimmed; or why it is none. Lines count from 1, the header's included; a row is named by its last line. */
export type CsvRow = { line: number; cells: string[] } | { line: number; reason: string };

/**
 * Reads a CSV (RFC 4180) with a header row: UTF-8, or UTF-16 with its mark, as spreadsheets write it; fields parted by comma, semicolon or tab,
 * whichever the header uses. A row that cannot be read is given as such and the rest goes on. Throws Problem for a text without
 * a header, or in another encoding.
 */
export async function readCsv(bytes: Buffer, delimiter: CsvDelimiter): Promise<{ header: string[]; rows: AsyncIterable<CsvRow> }> {
  const text = decode(bytes);
  const records = readRecords(text, delimiter === 'auto' ? guessDelimiter(text) : CSV_DELIMITERS[delimiter]);
  const first = await records.next();
  if (first.done) throw new Problem('malformed', 'The file is empty; its first row must name the columns');
  if ('reason' in first.value) throw new Problem('malformed', `The header row cannot be read: ${first.value.reason}`);
  const header = first.value.cells;
  if (header.length > MAX_COLUMNS) throw new Problem('malformed', `The file has more than ${MAX_COLUMNS} columns`);
  return { header, rows: belowHeader(records, header.length) };
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

async function* belowHeader(records: AsyncIterable<CsvRow>, width: number): AsyncGenerator<CsvRow> {
  for await (const row of records) {
    if ('reason' in row) yield row;
    else if (row.cells.every((cell) => cell === '')) continue;
    else if (row.cells.length > width) yield { line: row.line, reason: `has ${row.cells.length} fields, the header has ${width}` };
    else yield row;
  }
}

/** Rows in order; what the parser skips stands where it was met. */
async function* readRecords(text: string, delimiter: string): AsyncGenerator<CsvRow> {
  const skipped: CsvRow[] = [];
  const parser = parse(text, {
    delimiter,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    max_record_size: 256 * 1024,
    on_skip: (error) => {
      skipped.push({ line: Number(error?.lines ?? 0), reason: reasonOf(error) });
      return undefined;
    },
  });
  try {
    for await (const { record, info } of parser as AsyncIterable<{ record: string[]; info: Info }>) {
      yield* skipped.splice(0);
      const cells = record.map((cell) => cell.trim());
      yield cells.some((cell) => cell.includes('\0')) ? { line: info.lines, reason: 'holds a NUL character' } : { line: info.lines, cells };
    }
  } catch (error) {
    // A quote that is opened and never closed takes the rest of the file with it; what stood before it is kept.
    skipped.push({ line: lineOf(error), reason: reasonOf(error) });
  }
  yield* skipped;
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
function guessDelimiter(text: string): string {
  const firstLine = /^[^\r\n]*/.exec(text.trimStart())?.[0].replace(/"[^"]*"/g, '') ?? '';
  const count = (delimiter: string): number => firstLine.split(delimiter).length;
  return Object.values(CSV_DELIMITERS).reduce((best, delimiter) => (count(delimiter) > count(best) ? delimiter : best));
}

function lineOf(error: unknown): number {
  return typeof error === 'object' && error !== null && 'lines' in error ? Number(error.lines) : 0;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 200) : 'cannot be read';
}
