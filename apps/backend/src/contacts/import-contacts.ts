import type { DataSource } from 'typeorm';
import { transactAndTell, type Teller } from '../database/outbox.js';
import { rows as sqlRows, transact } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { databaseFault } from '../database/database-fault.js';
import { invalidField, Problem } from '../http/problem.js';
import { addTags } from './add-tag.js';
import { attributeNameSchema, type ContactInput, externalIdSchema } from './contact-input.js';
import { readEmailAddress } from './email-address.js';
import { findList } from './find-list.js';
import { joinList } from './join-list.js';
import { columnsOf, type CsvDelimiter, readCsv } from './read-csv.js';
import { upsertContacts } from './upsert-contact.js';

const BATCH_SIZE = 500;
/** While a journey waits for what an import does. A batch holds the identities in it until all it has started is written, and others wait. */
const BATCH_SIZE_WITH_RUNS = 50;
const EVENTS_OF_AN_IMPORT = ['contact.created', 'contact.updated', 'tag.added', 'list.joined'];
const MAX_FAILURES_SHOWN = 100;

export type Import = { total: number; imported: number; created: number; updated: number; failed: { line: number; reason: string }[]; failedCount: number };
export type ImportOptions = { listId?: string | undefined; tag?: string | undefined; delimiter: CsvDelimiter };
export type ImportTools = { source: DataSource; bus: EventBus; teller: Teller };

type ReadRow = { line: number; input: ContactInput };

/**
 * Upserts a contact for every row of a CSV and puts it on a list or tags it, when one is named. The columns `email` and `external_id`
 * say who is meant, every other column is an attribute (`first_name`, or `attributes.first_name`), kept as text; an empty cell
 * changes nothing. A bad row is reported by its line and the others are kept: up to 500 rows commit together, so an import that breaks off has
 * kept what came before and can be sent again. Throws Problem when the file as a whole cannot be read or the list is not there.
 */
export async function importContacts(tools: ImportTools, bytes: Buffer, options: ImportOptions): Promise<Import> {
  if (options.listId !== undefined) await checkList(tools.source, options.listId);
  const batchSize = await batchSizeFor(tools);
  let readRow: RowReader = () => ({ line: 1, reason: 'stands before the header' });
  const rows = readCsv(bytes, options.delimiter, (header) => {
    readRow = rowReader(header);
  });
  const done: Import = { total: 0, imported: 0, created: 0, updated: 0, failed: [], failedCount: 0 };
  let batch: ReadRow[] = [];
  for await (const row of rows) {
    done.total += 1;
    const read = 'reason' in row ? row : readRow(row);
    if ('reason' in read) fail(done, read.line, read.reason);
    else batch.push(read);
    if (batch.length < batchSize) continue;
    await writeBatch(tools, batch, options, done);
    batch = [];
  }
  await writeBatch(tools, batch, options, done);
  done.failed.sort((a, b) => a.line - b.line);
  return done;
}

type RowReader = (row: { line: number; cells: string[] }) => ReadRow | { line: number; reason: string };

function rowReader(header: string[]): RowReader {
  const columns = columnsOf(header, nameOfColumn);
  if (!columns.has('email') && !columns.has('external_id')) throw invalidField('header', 'needs a column "email" or "external_id"');
  const attributeColumns = [...columns].filter(([name]) => name.startsWith(ATTRIBUTE)).map(([name, index]) => ({ name: name.slice(ATTRIBUTE.length), index }));
  for (const { name } of attributeColumns)
    if (!attributeNameSchema.safeParse(name).success) throw invalidField('header', `"${name.slice(0, 100)}" cannot be the name of an attribute`);
  const cellOf = (cells: string[], name: string): string => cells[columns.get(name) ?? -1] ?? '';

  return ({ line, cells }) => {
    const written = cellOf(cells, 'email');
    const email = written === '' ? undefined : readEmailAddress(written);
    if (email === null) return { line, reason: `"${written.slice(0, 100)}" is not a mail address that can be used` };
    const externalId = externalIdSchema.optional().safeParse(cellOf(cells, 'external_id') || undefined);
    if (!externalId.success) return { line, reason: 'the external_id is longer than 200 characters or holds control characters' };
    if (email === undefined && externalId.data === undefined) return { line, reason: 'has neither an email nor an external_id' };
    const given = attributeColumns.flatMap(({ name, index }): [string, string][] => (cells[index] ? [[name, cells[index]]] : []));
    return { line, input: { email, externalId: externalId.data, attributes: Object.fromEntries(given) } };
  };
}

const ATTRIBUTE = 'attributes.';

/** Identity columns go by a few spellings; any other is an attribute of the name that is written. */
function nameOfColumn(written: string): string {
  const plain = written.toLowerCase().replace(/[\s_-]/g, '');
  if (plain === 'email') return 'email';
  if (plain === 'externalid') return 'external_id';
  return written === '' || written.startsWith(ATTRIBUTE) ? written : `${ATTRIBUTE}${written}`;
}

function batchSizeFor({ source, bus }: ImportTools): Promise<number> {
  return transact(source, async (tx) => {
    for (const type of EVENTS_OF_AN_IMPORT) if (await bus.listening.wants(tx, type)) return BATCH_SIZE_WITH_RUNS;
    return BATCH_SIZE;
  });
}

/** A batch that is refused is written row by row, to find the row at fault; a database that is away ends the import. */
async function writeBatch(tools: ImportTools, batch: ReadRow[], options: ImportOptions, done: Import): Promise<void> {
  if (batch.length === 0) return;
  try {
    const { created, updated } = await writeRows(tools, batch, options);
    done.imported += batch.length;
    done.created += created;
    done.updated += updated;
  } catch (error) {
    const fault = databaseFault(error);
    if (fault === 'away' || (fault === null && !(error instanceof Problem)) || (error instanceof Problem && error.code !== 'unprocessable')) throw error;
    const [only] = batch;
    if (batch.length === 1 && only) return fail(done, only.line, error instanceof Problem ? error.detail : 'could not be written');
    for (const row of batch) await writeBatch(tools, [row], options, done);
  }
}

function writeRows({ source, bus, teller }: ImportTools, batch: ReadRow[], { listId, tag }: ImportOptions): Promise<{ created: number; updated: number }> {
  return transactAndTell(source, teller, async (tx) => {
    const list = listId === undefined ? null : await findList(tx, listId);
    if (listId !== undefined && list?.id !== listId) throw unknownList();
    const upserts = await upsertContacts(
      tx,
      bus,
      batch.map(({ input }) => input),
    );
    const contactIds = [...new Set(upserts.map(({ contact }) => contact.id))].sort();
    if (tag !== undefined) await addTags(tx, bus, { contactIds, tags: [tag] });
    if (list) await joinList(tx, bus, { list, contactIds });
    const created = upserts.filter((upsert) => upsert.created).length;
    return { created, updated: upserts.filter((upsert) => !upsert.created && upsert.changedFields.length > 0).length };
  });
}

async function checkList(source: DataSource, listId: string): Promise<void> {
  if ((await sqlRows(source, 'SELECT 1 FROM lists WHERE id = $1', [listId])).length === 0) throw unknownList();
}

function unknownList(): Problem {
  return new Problem('not_found', 'There is no list with this id', { errors: [{ path: 'list', message: 'is not known' }] });
}

function fail(done: Import, line: number, reason: string): void {
  done.failedCount += 1;
  if (done.failed.length < MAX_FAILURES_SHOWN) done.failed.push({ line, reason });
}
