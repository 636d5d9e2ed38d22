import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type ContactInput, upsertContacts } from '../../src/contacts/upsert-contact.js';
import { rows, transact } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { busOf } from './listen.js';

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
});
afterAll(() => backend.close());
beforeEach(() => rows(backend.source, 'DELETE FROM contacts'));

const upsertAll = (inputs: ContactInput[]) => transact(backend.source, (tx) => upsertContacts(tx, busOf(backend), inputs));
const all = () => rows<{ external_id: string | null; email: string | null }>(backend.source, 'SELECT external_id, email FROM contacts');

it('batches that name the same people in other orders never wait for each other in a circle', async () => {
  const people = Array.from(
    { length: 60 },
    (_, index): ContactInput =>
      index % 3 === 0
        ? { externalId: `p${index}` }
        : index % 3 === 1
          ? { email: `p${index}@example.test` }
          : { externalId: `p${index}`, email: `p${index - 1}@example.test` },
  );
  const shuffled = (seed: number) => people.map((person, index) => ({ person, key: (index * 7_919 + seed * 104_729) % 1_009 })).sort((a, b) => a.key - b.key);
  await Promise.all(
    Array.from({ length: 12 }, (_, seed) => upsertAll(shuffled(seed).map(({ person }) => ({ ...person, attributes: { [`s${seed}`]: seed } })))),
  );
  const contacts = await all();
  const externalIds = contacts.flatMap(({ external_id }) => external_id ?? []);
  expect(new Set(externalIds).size).toBe(40);
  expect(externalIds).toHaveLength(40);
  // Everybody named by an e-mail was adopted by who brought it with an external id, in whatever order they came.
  expect(contacts).toHaveLength(40);
});

it('two batches of five hundred commit side by side', async () => {
  const batch = (prefix: string) =>
    Array.from({ length: 500 }, (_, index): ContactInput => ({ externalId: `${prefix}${index}`, email: `${prefix}${index}@example.test` }));
  await Promise.all([upsertAll(batch('a')), upsertAll(batch('b').reverse()), upsertAll(batch('a').reverse())]);
  expect(await all()).toHaveLength(1_000);
});
