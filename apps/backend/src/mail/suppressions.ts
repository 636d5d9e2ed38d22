import type { DataSource } from 'typeorm';
import { readEmailAddress } from '../contacts/email-address.js';
import { columnsOf, type CsvDelimiter, readCsv } from '../contacts/read-csv.js';
import { change, rows, type Tx } from '../database/sql.js';
import { invalidField } from '../http/problem.js';
import { SUPPRESSION_REASONS, type SuppressionReason } from './suppression.entity.js';

const BATCH_SIZE = 500;
const MAX_FAILURES_SHOWN = 100;

type Suppressed = { email: string; reason: SuppressionReason };
export type SuppressionImport = { total: number; imported: number; created: number; failed: { line: number; reason: string }[]; failedCount: number };

/** Suppresses addresses, each in the form of email-address.ts, and answers how many were new. A repeat changes nothing. */
export async function suppress(source: DataSource | Tx, suppressed: Suppressed[]): Promise<number> {
  return change(
    source,
    `INSERT INTO suppressions (email, reason) SELECT DISTINCT email, reason FROM unnest($1::text[], $2::text[]) AS given (email, reason) ORDER BY email, reason
     ON CONFLICT DO NOTHING`,
    [suppressed.map(({ email }) => email), suppressed.map(({ reason }) => reason)],
  );
}

/** Lets an address be written to again: for one reason, or for every one. Answers how many were lifted. */
export async function liftSuppression(source: DataSource | Tx, email: string, reason: SuppressionReason | undefined): Promise<number> {
  return (await rows(source, 'DELETE FROM suppressions WHERE email = $1 AND ($2::text IS NULL OR reason = $2) RETURNING email', [email, reason ?? null]))
    .length;
}

/** Suppresses every address of a CSV with the column `email` and, if there is one, `reason`; `manual` where none is given. Bad rows are reported by line. */
export async function importSuppressions(source: DataSource, bytes: Buffer, delimiter: CsvDelimiter): Promise<SuppressionImport> {
  let columns = new Map<string, number>();
  const csvRows = readCsv(bytes, delimiter, (header) => {
    columns = columnsOf(header, (written) => written.toLowerCase().replace(/^e-mail$/, 'email'));
    if (!columns.has('email')) throw invalidField('header', 'needs a column "email"');
  });
  const cellOf = (cells: string[], name: string): string => cells[columns.get(name) ?? -1] ?? '';

  const done: SuppressionImport = { total: 0, imported: 0, created: 0, failed: [], failedCount: 0 };
  let batch: Suppressed[] = [];
  const write = async (): Promise<void> => {
    done.created += await suppress(source, batch);
    done.imported += batch.length;
    batch = [];
  };
  for await (const row of csvRows) {
    done.total += 1;
    const read = 'reason' in row ? row.reason : readRow(cellOf(row.cells, 'email'), cellOf(row.cells, 'reason'));
    if (typeof read !== 'string') batch.push(read);
    else {
      done.failedCount += 1;
      if (done.failed.length < MAX_FAILURES_SHOWN) done.failed.push({ line: row.line, reason: read });
    }
    if (batch.length === BATCH_SIZE) await write();
  }
  await write();
  return done;
}

/** What a row says, or why it says nothing. */
function readRow(writtenEmail: string, writtenReason: string): Suppressed | string {
  const email = readEmailAddress(writtenEmail);
  if (email === null) return `"${writtenEmail.slice(0, 100)}" is not a mail address`;
  const reason = writtenReason === '' ? 'manual' : SUPPRESSION_REASONS.find((known) => known === writtenReason.toLowerCase());
  return reason === undefined ? `"${writtenReason.slice(0, 100)}" is not one of ${SUPPRESSION_REASONS.join(', ')}` : { email, reason };
}
