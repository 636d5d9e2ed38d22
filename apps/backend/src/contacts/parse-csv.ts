/**
 * Parts a CSV text (RFC 4180) into rows. Lines end with CRLF, LF or CR; a quoted field may hold any of them, and a doubled quote for one.
 * Blank lines are passed over; cells are trimmed. A row that breaks the rules, or holds a field longer than 10,000 characters, is given with
 * its reason, and reading goes on with the next line: one forgotten quote does not take the rest of the file with it.
 * `line` is the line a row begins on, from 1.
 */
export type CsvRow = { line: number; cells: string[] } | { line: number; reason: string };

const MAX_FIELD_CHARACTERS = 10_000;

export function* parseCsv(text: string, delimiter: ',' | ';' | '\t'): Generator<CsvRow> {
  const plainField = new RegExp(`[^${delimiter === '\t' ? '\\t' : delimiter}\\r\\n]*`, 'y');
  const lineEnd = /\r\n|\n|\r|$/y;
  const restOfLine = /[^\r\n]*/y;
  const blanks = / */y;
  let at = 0;
  let line = 1;

  const match = (pattern: RegExp): string | null => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0] ?? null;
  };
  const passLine = (): void => {
    at += match(restOfLine)?.length ?? 0;
    at += match(lineEnd)?.length ?? 0;
    line += 1;
  };

  while (at < text.length) {
    const begunOn = line;
    const cells: string[] = [];
    let reason: string | null = null;
    let isOpen = true;
    while (isOpen) {
      if (text[at] === '"') {
        const field = readQuoted(text, at);
        if (field === null) {
          reason = `a quote is opened that is not closed within ${MAX_FIELD_CHARACTERS.toLocaleString('en')} characters`;
          break;
        }
        line += field.lines;
        at = field.end;
        cells.push(field.value.trim());
        at += match(blanks)?.length ?? 0;
      } else {
        const field = match(plainField) ?? '';
        if (field.length > MAX_FIELD_CHARACTERS) {
          reason = `a field is longer than ${MAX_FIELD_CHARACTERS.toLocaleString('en')} characters`;
          break;
        }
        at += field.length;
        cells.push(field.trim());
      }
      const end = match(lineEnd);
      if (end !== null) {
        at += end.length;
        line += 1;
        isOpen = false;
      } else if (text[at] === delimiter) at += 1;
      else {
        reason = 'there is text after a closing quote';
        break;
      }
    }
    if (reason !== null) {
      passLine();
      yield { line: begunOn, reason };
    } else if (cells.length > 1 || cells[0] !== '') {
      yield cells.some((cell) => cell.includes('\0')) ? { line: begunOn, reason: 'there is a NUL character' } : { line: begunOn, cells };
    }
  }
}

/** The field whose opening quote stands at `start`: its value, where it ends, and how many line ends it holds; null when it has no end in reach. */
function readQuoted(text: string, start: number): { value: string; end: number; lines: number } | null {
  for (let at = text.indexOf('"', start + 1); at !== -1 && at - start <= 2 * MAX_FIELD_CHARACTERS; at = text.indexOf('"', at + 2)) {
    if (text[at + 1] === '"') continue;
    const value = text.slice(start + 1, at).replaceAll('""', '"');
    return value.length > MAX_FIELD_CHARACTERS ? null : { value, end: at + 1, lines: value.split(/\r\n|\n|\r/).length - 1 };
  }
  return null;
}
