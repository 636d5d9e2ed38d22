import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { change } from '../../src/database/sql.js';
import { MESSAGE_STATES, type MessageState } from '../../src/mail/message.entity.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

type Item = { id: string; state: string } & Record<string, unknown>;

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
});
afterAll(() => backend.close());

/** A message that nothing is done with: the queue was told of it just now, or it has ended, or its time is far off. */
async function message(parts: { runId?: string; contactId?: string; state?: MessageState } = {}): Promise<string> {
  const id = newId();
  const { runId = newId(), contactId = newId(), state = 'sent' } = parts;
  await change(
    backend.source,
    `INSERT INTO messages (id, run_id, seq, contact_id, is_transactional, state, begun_until, woken_at, message_id_header, from_mailbox, to_mailbox, subject, html)
     VALUES ($1, $2, (SELECT count(*) FROM messages WHERE run_id = $2), $3, false, $4, CASE WHEN $4 = 'begun' THEN now() + interval '1 h' END, now() + interval '1 h',
             '<x@example.test>', '{"name":"Onward","address":"onward@example.test"}', '{"name":"","address":"ada@example.test"}', 'Hi', '<p>Hello</p>')`,
    [id, runId, contactId, state],
  );
  return id;
}

async function listed(query: string): Promise<Item[]> {
  const { status, body } = await backend.api('GET', `/messages?${query}`);
  expect(status).toBe(200);
  return (body as { items: Item[] }).items;
}

describe('messages', () => {
  it('are listed by run, by contact and by state, newest first and without their content', async () => {
    const [runId, contactId] = [newId(), newId()];
    const first = await message({ runId, contactId });
    const second = await message({ runId, state: 'failed' });
    const third = await message({ contactId, state: 'failed' });
    expect((await listed(`runId=${runId}`)).map(({ id }) => id)).toEqual([second, first]);
    expect((await listed(`contactId=${contactId}`)).map(({ id }) => id)).toEqual([third, first]);
    expect((await listed(`contactId=${contactId}&state=failed`)).map(({ id }) => id)).toEqual([third]);
    const [item] = await listed(`runId=${runId}&state=sent`);
    expect(item).toMatchObject({ id: first, runId, contactId, to: { address: 'ada@example.test' }, subject: 'Hi', try: 1 });
    expect(item).not.toHaveProperty('html');
  });

  it.each(MESSAGE_STATES)('can be filtered for %s', async (state) => {
    const id = await message({ state });
    const found = await listed(`state=${state}&limit=200`);
    expect(found.map((item) => item.id)).toContain(id);
    expect(found.every((item) => item.state === state)).toBe(true);
  });

  it('are paged, each once, though they share an instant', async () => {
    const contactId = newId();
    const ids = await Promise.all(Array.from({ length: 5 }, () => message({ contactId })));
    await change(backend.source, `UPDATE messages SET created_at = '2026-01-01T00:00:00.123456Z' WHERE contact_id = $1`, [contactId]);
    const first = await backend.api('GET', `/messages?contactId=${contactId}&limit=3`);
    const { items, nextCursor } = first.body as { items: Item[]; nextCursor: string };
    const rest = await listed(`contactId=${contactId}&limit=3&cursor=${nextCursor}`);
    expect([...items, ...rest].map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  });

  it('one is read with its content', async () => {
    const id = await message();
    const { status, body } = await backend.api('GET', `/messages/${id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ id, html: '<p>Hello</p>', text: null, messageIdHeader: '<x@example.test>', from: { name: 'Onward' } });
  });

  it.each([
    [`/messages/${newId()}`, 404],
    ['/messages/not-an-id', 400],
    ['/messages?state=odd', 400],
    ['/messages?runId=1', 400],
    ['/messages?to=a@example.test', 400],
    ['/messages?cursor=garbage', 400],
  ])('GET %s is a %i', async (path, status) => {
    expect((await backend.api('GET', path)).status).toBe(status);
  });
});
