import type { Json } from '@onward/contracts/json';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { addTag } from '../../src/actions/add-tag/add-tag.action.js';
import type { Action, ActionResult, StepContact } from '../../src/actions/action.js';
import { moveToList } from '../../src/actions/move-to-list/move-to-list.action.js';
import { removeTag } from '../../src/actions/remove-tag/remove-tag.action.js';
import { updateContact } from '../../src/actions/update-contact/update-contact.action.js';
import { addTagPairs } from '../../src/contacts/add-tag.js';
import { removeTagPairs } from '../../src/contacts/remove-tag.js';
import { rows, transact } from '../../src/database/sql.js';
import { newId } from '../../src/database/new-id.js';
import type { EventBus } from '../../src/events/event-bus.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { busOf, type Emitted, listenTo } from './listen.js';

let backend: BackendForTest;
let bus: EventBus;
let emitted: () => Promise<Emitted[]>;
let contact: StepContact;
beforeAll(async () => {
  backend = await backendForTest();
  bus = busOf(backend);
  emitted = await listenTo(backend, ['tag.added', 'tag.removed', 'list.joined', 'list.left', 'contact.updated']);
});
afterAll(() => backend.close());
beforeEach(async () => {
  await rows(backend.source, 'DELETE FROM contacts');
  await rows(backend.source, 'DELETE FROM lists');
  contact = (await backend.api<StepContact>('POST', '/contacts', { externalId: 'a', email: 'a@example.test', attributes: { city: 'Lyon', n: 0 } })).body;
  await emitted();
});

/** Executes as the runtime does: the configuration checked by the action's own schema, in one transaction. */
function perform<Config>(
  action: Action<Config>,
  config: unknown,
  { who = contact as StepContact | null, event = {} as { [key: string]: Json } } = {},
): Promise<ActionResult> {
  const scope = { contact: who && { id: who.id, email: who.email, attributes: who.attributes }, event, context: {}, steps: {}, run: {}, workflow: {} };
  return transact(backend.source, (tx) =>
    action.execute({
      tx,
      runId: newId(),
      seq: 2,
      n: 1,
      node: 'step',
      workflowId: newId(),
      config: action.config.parse(config),
      contactId: who?.id ?? null,
      contact: who,
      scope,
      now: new Date(),
      depth: 3,
    }),
  );
}

const done = (output: Json) => ({ outcome: { kind: 'done', output } });
const failedWith = (code: string) => ({ outcome: { kind: 'failed', failure: { code } } });
const deleteContact = () => rows(backend.source, 'DELETE FROM contacts');

describe('ADD_TAG and REMOVE_TAG', () => {
  it('find a contact missing that is deleted while they wait for it', async () => {
    let adding: Promise<{ kind: string }[]> | undefined;
    await transact(backend.source, async (tx) => {
      await rows(tx, 'DELETE FROM contacts WHERE id = $1', [contact.id]);
      adding = transact(backend.source, (own) => addTagPairs(own, bus, [{ contactId: contact.id, tag: 'late', depth: 1 }]));
      const waits = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      await expect.poll(() => rows(backend.source, waits), { timeout: 20_000 }).not.toEqual([]);
    });
    expect(await adding).toEqual([{ kind: 'contact_missing' }]);
  });

  it('change many contacts at once as they would one by one, a pair that comes twice once', async () => {
    const { id: other } = (await backend.api<StepContact>('POST', '/contacts', { email: 'b@example.test' })).body;
    const gone = newId();
    const asked = [
      { contactId: contact.id, tag: 'x', depth: 1 },
      { contactId: other, tag: 'y', depth: 2 },
      { contactId: contact.id, tag: 'x', depth: 3 },
      { contactId: gone, tag: 'x', depth: 4 },
      { contactId: contact.id, tag: 'y', depth: 5 },
    ];
    const kinds = ['changed', 'changed', 'unchanged', 'contact_missing', 'changed'];
    for (const [change, type] of [
      [addTagPairs, 'tag.added'],
      [removeTagPairs, 'tag.removed'],
    ] as const) {
      expect((await transact(backend.source, (tx) => change(tx, bus, asked))).map(({ kind }) => kind)).toEqual(kinds);
      expect(await emitted()).toEqual(
        asked.filter((_, index) => kinds[index] === 'changed').map(({ contactId, tag, depth }) => ({ type, contactId, payload: { tag }, depth })),
      );
    }
    const again = ['unchanged', 'unchanged', 'unchanged', 'contact_missing', 'unchanged'];
    expect((await transact(backend.source, (tx) => removeTagPairs(tx, bus, asked))).map(({ kind }) => kind)).toEqual(again);
  });

  it('change the contact once, say so, and emit in the depth of the step', async () => {
    expect(await perform(addTag(bus), { tag: 'from {{ contact.attributes.city }}' })).toMatchObject({
      ...done({ tag: 'from Lyon', changed: true }),
      input: { tag: 'from Lyon' },
    });
    expect(await perform(addTag(bus), { tag: 'from {{ contact.attributes.city }}' })).toMatchObject(done({ tag: 'from Lyon', changed: false }));
    expect(await perform(removeTag(bus), { tag: 'from Lyon' })).toMatchObject(done({ tag: 'from Lyon', changed: true }));
    expect(await perform(removeTag(bus), { tag: 'from Lyon' })).toMatchObject(done({ tag: 'from Lyon', changed: false }));
    expect(await emitted()).toEqual([
      { type: 'tag.added', contactId: contact.id, payload: { tag: 'from Lyon' }, depth: 3 },
      { type: 'tag.removed', contactId: contact.id, payload: { tag: 'from Lyon' }, depth: 3 },
    ]);
  });

  it.each([
    ['ADD_TAG', addTag],
    ['REMOVE_TAG', removeTag],
  ] as const)('%s fails for good with a tag that comes out empty or too long, a broken template, a contact that is gone', async (_, make) => {
    const action = make(bus);
    expect(await perform(action, { tag: ' {{ contact.attributes.none }} ' })).toMatchObject(failedWith('value_invalid'));
    expect(await perform(action, { tag: '{{ event.long }}' }, { event: { long: 'x'.repeat(101) } })).toMatchObject(failedWith('value_invalid'));
    expect(await perform(action, { tag: '{{ event.lines }}' }, { event: { lines: 'a\nb' } })).toMatchObject(failedWith('value_invalid'));
    expect(await perform(action, { tag: '{{ x | shout }}' })).toMatchObject(failedWith('template_error'));
    expect(await perform(action, { tag: 'x' }, { who: null })).toMatchObject(failedWith('contact_missing'));
    await deleteContact();
    expect(await perform(action, { tag: 'x' })).toMatchObject(failedWith('contact_deleted'));
    expect(await emitted()).toEqual([]);
  });
});

describe('MOVE_TO_LIST', () => {
  const makeList = async (name: string) => (await backend.api<{ id: string; name: string }>('POST', '/lists', { name })).body;
  const onLists = async () =>
    (await rows<{ name: string }>(backend.source, 'SELECT name FROM list_members JOIN lists ON lists.id = list_id ORDER BY name')).map(({ name }) => name);

  it('leaves one list and joins another, by id or by name, once', async () => {
    const [from, to] = [await makeList('trial'), await makeList('paying')];
    await backend.api('POST', `/lists/${from.id}/members`, { contactIds: [contact.id] });
    await emitted();
    const ends = { from: { id: from.id, name: 'trial' }, to: { id: to.id, name: 'paying' } };
    expect(await perform(moveToList(bus), { from: from.id, to: '{{ event.to }}' }, { event: { to: 'paying' } })).toMatchObject(
      done({ ...ends, left: true, joined: true }),
    );
    expect(await onLists()).toEqual(['paying']);
    expect(await emitted()).toMatchObject([
      { type: 'list.left', payload: { listId: from.id }, depth: 3 },
      { type: 'list.joined', payload: { listId: to.id }, depth: 3 },
    ]);
    expect(await perform(moveToList(bus), { from: 'trial', to: to.id })).toMatchObject(done({ ...ends, left: false, joined: false }));
    expect(await perform(moveToList(bus), { from: 'paying', to: 'paying' })).toMatchObject(done({ from: ends.to, to: ends.to, left: false, joined: false }));
    expect(await perform(moveToList(bus), { to: 'trial' })).toMatchObject(done({ from: null, to: ends.from, left: false, joined: true }));
    expect(await onLists()).toEqual(['paying', 'trial']);
  });

  it('does both or neither: a list that is missing fails for good and leaves the contact where it was', async () => {
    await makeList('here');
    await backend.api('POST', `/lists/${(await makeList('from')).id}/members`, { contactIds: [contact.id] });
    await emitted();
    for (const config of [
      { from: 'from', to: 'gone' },
      { from: 'gone', to: 'here' },
      { from: 'from', to: newId() },
    ])
      expect(await perform(moveToList(bus), config)).toMatchObject(failedWith('list_missing'));
    expect(await perform(moveToList(bus), { from: 'from', to: '{{ event.none }}' })).toMatchObject(failedWith('value_invalid'));
    expect(await onLists()).toEqual(['from']);
    expect(await emitted()).toEqual([]);
    await deleteContact();
    expect(await perform(moveToList(bus), { to: 'here' })).toMatchObject(failedWith('contact_deleted'));
  });
});

describe('UPDATE_CONTACT', () => {
  it('sets attributes, texts filled and other values as they are, and says which changed', async () => {
    const config = { attributes: { city: null, greeting: 'Hi {{ contact.email }}', n: 0, list: ['{{ event.a }}', 1, { b: '{{ event.a }}' }], on: true } };
    expect(await perform(updateContact(bus), config, { event: { a: 'x' } })).toMatchObject(
      done({ changed: ['attributes.city', 'attributes.greeting', 'attributes.list', 'attributes.on'] }),
    );
    const { body } = await backend.api<{ attributes: object }>('GET', `/contacts/${contact.id}`);
    expect(body.attributes).toEqual({ n: 0, greeting: 'Hi a@example.test', list: ['x', 1, { b: 'x' }], on: true });
    expect(await perform(updateContact(bus), config, { event: { a: 'x' } })).toMatchObject(done({ changed: [] }));
    expect(await emitted()).toMatchObject([{ type: 'contact.updated', contactId: contact.id, depth: 3 }]);
  });

  it('fails for good with a broken template, too many attributes, a contact that is gone', async () => {
    expect(await perform(updateContact(bus), { attributes: { a: '{{ x | shout }}' } })).toMatchObject(failedWith('template_error'));
    await rows(backend.source, `UPDATE contacts SET attributes = (SELECT jsonb_object_agg('k' || n, 1) FROM generate_series(1, 200) AS n)`);
    expect(await perform(updateContact(bus), { attributes: { one: 1 } })).toMatchObject(failedWith('value_invalid'));
    await deleteContact();
    expect(await perform(updateContact(bus), { attributes: { a: 1 } })).toMatchObject(failedWith('contact_deleted'));
  });

  it('a text that a filter has cut inside a character can be kept', async () => {
    expect(await perform(updateContact(bus), { attributes: { a: '{{ event.e | split: "" | first }}' } }, { event: { e: '🎉' } })).toMatchObject({
      outcome: { kind: 'done' },
    });
  });

  it.each([{}, { attributes: {} }, { attributes: { a: 1 }, email: 'x@example.test' }, { attributes: { ['k'.repeat(101)]: 1 } }])(
    'a configuration such as %j is refused',
    (config) => {
      expect(updateContact(bus).config.safeParse(config).success).toBe(false);
    },
  );
});
