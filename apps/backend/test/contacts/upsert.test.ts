import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ContactInput, type Upsert, upsertContact, upsertContacts } from '../../src/contacts/upsert-contact.js';
import { rows, transact } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { busOf, type Emitted, listenTo } from './listen.js';

let backend: BackendForTest;
let emitted: () => Promise<Emitted[]>;
beforeAll(async () => {
  backend = await backendForTest();
  emitted = await listenTo(backend, ['contact.created', 'contact.updated']);
});
afterAll(() => backend.close());
beforeEach(async () => {
  await rows(backend.source, 'DELETE FROM contacts');
  await emitted();
});

const upsert = (input: ContactInput): Promise<Upsert> => transact(backend.source, (tx) => upsertContact(tx, busOf(backend), input));
const upsertAll = (inputs: ContactInput[]): Promise<Upsert[]> => transact(backend.source, (tx) => upsertContacts(tx, busOf(backend), inputs));
const all = () =>
  rows<{ external_id: string | null; email: string | null; attributes: object }>(
    backend.source,
    'SELECT external_id, email, attributes FROM contacts ORDER BY created_at, id',
  );
const email = 'e@example.test';

describe('who is meant', () => {
  it('an external id means the contact that has it', async () => {
    const first = await upsert({ externalId: 'x' });
    const second = await upsert({ externalId: 'x', email });
    expect(first).toMatchObject({ created: true, changedFields: ['externalId'] });
    expect(second).toMatchObject({ created: false, changedFields: ['email'], contact: { id: first.contact.id, email } });
    expect(await all()).toHaveLength(1);
  });

  it('both together adopt the contact that has only the e-mail', async () => {
    const byEmail = await upsert({ email, attributes: { plan: 'free' } });
    const both = await upsert({ externalId: 'x', email });
    expect(both).toMatchObject({ created: false, changedFields: ['externalId'], contact: { id: byEmail.contact.id, attributes: { plan: 'free' } } });
    expect(await all()).toEqual([{ external_id: 'x', email, attributes: { plan: 'free' } }]);
  });

  it('both together leave a contact with another external id alone, though it has the e-mail', async () => {
    await upsert({ externalId: 'a', email });
    expect((await upsert({ externalId: 'b', email })).created).toBe(true);
    expect(await all()).toHaveLength(2);
  });

  it('an external id that is known is not merged with the contact that has only the e-mail', async () => {
    await upsert({ email });
    await upsert({ externalId: 'x' });
    expect((await upsert({ externalId: 'x', email })).changedFields).toEqual(['email']);
    expect(await all()).toHaveLength(2);
  });

  it('an e-mail alone means the contact that has no external id, though an older one has the e-mail', async () => {
    await upsert({ externalId: 'older', email });
    await rows(backend.source, 'INSERT INTO contacts (id, email) VALUES (gen_random_uuid(), $1)', [email]);
    expect((await upsert({ email })).contact.externalId).toBeNull();
  });

  it('an e-mail alone else means the oldest that has it, to the microsecond', async () => {
    await rows(
      backend.source,
      `INSERT INTO contacts (id, external_id, email, created_at) VALUES ('00000000-0000-7000-8000-000000000001', 'younger', $1, '2026-01-01T00:00:00.000002Z'),
         ('00000000-0000-7000-8000-000000000002', 'oldest', $1, '2026-01-01T00:00:00.000001Z')`,
      [email],
    );
    expect((await upsert({ email })).contact.externalId).toBe('oldest');
    expect(await all()).toHaveLength(2);
  });

  it('within one batch a contact made by one row is meant by the next', async () => {
    const answers = await upsertAll([
      { email },
      { externalId: 'x', email },
      { email, attributes: { a: 1 } },
      { externalId: 'x', attributes: { b: 2 } },
      { externalId: 'y', email },
      { email },
    ]);
    expect(answers.map(({ created }) => created)).toEqual([true, false, false, false, true, false]);
    expect(new Set(answers.map(({ contact }) => contact.id)).size).toBe(2);
    expect(answers[5]?.contact.externalId).toBe('x');
    expect(await all()).toEqual([
      expect.objectContaining({ external_id: 'x', email, attributes: { a: 1, b: 2 } }),
      expect.objectContaining({ external_id: 'y', email }),
    ]);
  });
});

describe('what is merged', () => {
  it('attributes are merged, null removes one, and what is equal changes nothing', async () => {
    await upsert({ externalId: 'x', attributes: { keep: 1, drop: 2, nested: { b: 1, a: [1, { c: 2 }] }, constructor: 'own' } });
    expect(await emitted()).toMatchObject([{ type: 'contact.created' }]);
    const second = await upsert({ externalId: 'x', attributes: { drop: null, never: null, nested: { a: [1, { c: 2 }], b: 1 }, added: false } });
    expect(second.changedFields).toEqual(['attributes.drop', 'attributes.added']);
    expect((await all())[0]?.attributes).toEqual({ keep: 1, nested: { a: [1, { c: 2 }], b: 1 }, constructor: 'own', added: false });
    expect(await emitted()).toMatchObject([{ type: 'contact.updated', payload: { changed: ['attributes.drop', 'attributes.added'] } }]);
    expect((await upsert({ externalId: 'x', attributes: { keep: 1 } })).changedFields).toEqual([]);
    expect(await emitted()).toEqual([]);
  });

  it('what changes nothing waits for no lock', async () => {
    await upsert({ externalId: 'x', email, attributes: { a: 1 } });
    await transact(backend.source, async (tx) => {
      await rows(tx, 'SELECT 1 FROM contacts FOR UPDATE');
      expect((await upsert({ externalId: 'x', email, attributes: { a: 1 } })).changedFields).toEqual([]);
    });
  });

  it('a new address has no known problem', async () => {
    await upsert({ externalId: 'x', email });
    await rows(backend.source, `UPDATE contacts SET email_problem = 'bounced'`);
    expect((await upsert({ externalId: 'x', email })).contact.emailProblem).toBe('bounced');
    expect((await upsert({ externalId: 'x', email: 'new@example.test' })).contact.emailProblem).toBeNull();
  });

  it('a contact has at most 200 attributes', async () => {
    const many = (from: number, count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${from + index}`, 1]));
    await upsert({ externalId: 'x', attributes: many(0, 200) });
    await expect(upsert({ externalId: 'x', attributes: many(200, 1) })).rejects.toMatchObject({ code: 'unprocessable' });
    expect((await upsert({ externalId: 'x', attributes: { ...many(200, 1), a0: null } })).changedFields).toHaveLength(2);
  });
});

describe('many at once', () => {
  it('an e-mail alone and with an external id, ten at a time, come to one contact and one contact.created', async () => {
    for (let round = 0; round < 15; round += 1) {
      const mail = `round${round}@example.test`;
      const inputs = Array.from(
        { length: 10 },
        (_, index): ContactInput =>
          index % 2 ? { email: mail, attributes: { [`a${index}`]: 1 } } : { externalId: `r${round}`, email: mail, attributes: { [`a${index}`]: 1 } },
      );
      const answers = await Promise.all(inputs.map(upsert));
      expect(new Set(answers.map(({ contact }) => contact.id)).size).toBe(1);
      expect(answers.filter(({ created }) => created)).toHaveLength(1);
      const [contact] = await rows<{ attributes: object }>(backend.source, 'SELECT attributes FROM contacts WHERE email = $1', [mail]);
      expect(Object.keys(contact?.attributes ?? {})).toHaveLength(10);
      expect((await emitted()).filter(({ type }) => type === 'contact.created')).toHaveLength(1);
    }
  });
});
