/** Statements that do not wait for each other's answers. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { commitWith, prepared, rows, type Statement, transact, type Tx } from '../../src/database/sql.js';
import { Reads } from '../../src/runtime/reads.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
});
afterAll(() => onward?.close());

const insert = (tx: Tx, id: string, email: string | null = `${id}@example.test`) =>
  prepared(tx, 'INSERT INTO contacts (id, email) VALUES ($1, $2)', [id, email]);
const find = (tx: Tx, id: string) => prepared<{ id: string }>(tx, 'SELECT id FROM contacts WHERE id = $1', [id]);
const countOf = async (id: string) => (await rows(onward.source, 'SELECT 1 FROM contacts WHERE id = $1', [id])).length;

test('statements given in one go are run in that order, in the transaction that was begun before them', async () => {
  const id = newId();
  const [, [found], [where]] = await transact(onward.source, (tx) =>
    Promise.all([insert(tx, id), find(tx, id), prepared<{ isInBlock: boolean }>(tx, 'SELECT now() < statement_timestamp() AS "isInBlock"', [])]),
  );
  expect(found).toEqual({ id });
  expect(where).toEqual({ isInBlock: true });
  expect(await countOf(id)).toBe(1);
});

test('when one of them fails its fault is thrown, whatever stands behind it is undone, and the connection is good for the next', async () => {
  const [first, second] = [newId(), newId()];
  const failed = transact(onward.source, (tx) => Promise.all([insert(tx, first), insert(tx, first), insert(tx, second)]));
  await expect(failed).rejects.toThrow(/contacts_pkey|duplicate key/);
  expect([await countOf(first), await countOf(second)]).toEqual([0, 0]);
  for (let nth = 0; nth < 20; nth += 1) expect(await transact(onward.source, (tx) => find(tx, first))).toEqual([]);
});

test('what throws before any statement was answered leaves nothing', async () => {
  const id = newId();
  const failed = transact(onward.source, async (tx) => {
    insert(tx, id).catch(() => undefined);
    throw new Error('changed its mind');
  });
  await expect(failed).rejects.toThrow('changed its mind');
  expect(await countOf(id)).toBe(0);
});

const insertion = (id: string): Statement => ({ statement: 'INSERT INTO contacts (id, email) VALUES ($1, $2)', parameters: [id, `${id}@example.test`] });

test('the last statements and the commit travel together', async () => {
  const [first, second] = [newId(), newId()];
  const answers = await transact(onward.source, async (tx) => {
    await insert(tx, first);
    return commitWith(tx, [insertion(second), { statement: 'SELECT id FROM contacts WHERE id = $1', parameters: [first] }]);
  });
  expect(answers).toEqual([[], [{ id: first }]]);
  expect([await countOf(first), await countOf(second)]).toEqual([1, 1]);
});

test('when one of the last statements fails its fault is thrown, nothing is committed, and the connection is good for the next', async () => {
  const [first, second] = [newId(), newId()];
  const failed = transact(onward.source, async (tx) => {
    await insert(tx, first);
    return commitWith(tx, [insertion(second), insertion(first), insertion(newId())]);
  });
  await expect(failed).rejects.toThrow(/contacts_pkey|duplicate key/);
  expect([await countOf(first), await countOf(second)]).toEqual([0, 0]);
  for (let nth = 0; nth < 20; nth += 1) expect(await transact(onward.source, (tx) => find(tx, first))).toEqual([]);
});

test('a transaction that had failed before is not taken for committed', async () => {
  const id = newId();
  const failed = transact(onward.source, async (tx) => {
    await insert(tx, id);
    await rows(tx, 'SELECT 1 / 0').catch(() => undefined);
    return commitWith(tx, []);
  });
  await expect(failed).rejects.toThrow('rolled back');
  expect(await countOf(id)).toBe(0);
});

test('a transaction is committed once', async () => {
  const id = newId();
  const late = transact(onward.source, async (tx) => {
    await commitWith(tx, [insertion(id)]);
    await commitWith(tx, [insertion(newId())]);
  });
  await expect(late).rejects.toThrow('no transaction to commit');
  expect(await countOf(id)).toBe(1);
});

test('a lock that only a transaction may take is taken, and let go', async () => {
  const id = newId();
  await transact(onward.source, (tx) => insert(tx, id));
  await transact(onward.source, (tx) => tx.query('SELECT id FROM contacts WHERE id = $1 FOR UPDATE', [id]));
  await transact(onward.source, (tx) => tx.query('SELECT id FROM contacts WHERE id = $1 FOR UPDATE NOWAIT', [id]));
});

test('nobody reads between the statements of an action that writes for many', async () => {
  const id = newId();
  const seen = await transact(onward.source, async (tx) => {
    const reads = new Reads(tx);
    const acts = reads.inTurn(async () => {
      await insert(tx, id);
      await prepared(tx, 'DELETE FROM contacts WHERE id = $1', [id]);
    });
    const [has] = await Promise.all([reads.hasContact(id), acts]);
    return has;
  });
  expect(seen).toBeNull();
});
