import { hash } from 'node:crypto';
import type { Json } from '@onward/contracts/json';
import { FailPoints } from '@onward/wire/fail-points';
import type { ContactInput } from '../../contacts/contact-input.js';
import { type Draft, findContacts, mergeContacts, tooManyAttributes, type Upsert } from '../../contacts/upsert-contact.js';
import { newId } from '../../database/new-id.js';
import { KEEP_PLANS, prepared, type Tx } from '../../database/sql.js';
import { type Dispatch, type EmittedEvent, EventBus, type Listeners } from '../../events/event-bus.js';
import { storeEvents, storingAll } from '../../events/store-events.js';
import { Problem } from '../../http/problem.js';
import { readAccepted } from './read-accepted.js';

export type EventInput = {
  id?: string | undefined;
  type: string;
  contact?: ContactInput | undefined;
  payload: Record<string, Json>;
  occurredAt?: string | undefined;
};
export type Accepted = { id: string; contactId: string | null; isRepeated: boolean; dispatched: Dispatch[] };
/** `refused`: why this event was not taken while the others were; a Problem when it is its own fault. */
export type EventAnswer = { accepted: Accepted } | { refused: Error };

/** An event as it was given, under its own id or ours. */
type Asked = { input: EventInput; id: string; bodyHash: Buffer };
/** One that nobody has given before: its row, and the event of Onward's own that its contact gives rise to. */
type Fresh = { event: EmittedEvent & { bodyHash: Buffer }; change: EmittedEvent | null };

/**
 * Takes events in: their contacts, their rows, and a run or a recorded refusal for each active workflow that matches, all in the caller's
 * transaction, in the order given, as if each had come alone; answers one for one. The number of statements does not grow with the events.
 * The same id again, also within one call, gets the first answer; with another body it is a conflict of that event alone.
 *
 * Throws when it cannot tell one event's fault from the others': the transaction is to be undone and each given alone. With `onFault: 'throw'` such a fault is
 * also a run that cannot be written, which is a recorded refusal with `refuse`, and an event that somebody else takes in at this moment; in return
 * everything is written and committed in one go, and nothing may follow (see Listeners).
 */
export async function acceptEvents(
  tx: Tx,
  inputs: readonly EventInput[],
  { bus, failPoints, onFault }: { bus: EventBus; failPoints: FailPoints; onFault: 'refuse' | 'throw' },
): Promise<EventAnswer[]> {
  const asked = inputs.map((input): Asked => ({ input, id: input.id ?? newId(), bodyHash: hashOf(input) }));
  const types = [...new Set([...inputs.map(({ type }) => type), ...CONTACT_EVENTS])];
  const askListeners = () => bus.listening.listenersOf(tx, types);
  // All that can be asked before anything is known, in one go.
  const [, accepted, found, listeners] = await Promise.all([
    prepared(tx, `SELECT ${KEEP_PLANS}`, []),
    readAccepted(
      tx,
      inputs.flatMap(({ id }) => id ?? []),
    ),
    findContacts(
      tx,
      inputs.flatMap(({ contact }) => contact ?? []),
    ),
    askListeners(),
  ]);
  const unknown = firstOfEachId(asked.filter(({ id }) => !accepted.has(id)));
  const fresh = await mergeTheirContacts(tx, unknown, found);
  // While the first of an id is refused, its repeat is none: it may be taken.
  if (fresh.size < unknown.length && unknown.length < asked.length) throw tooManyAttributes();

  // Who changed a contact may have waited for its lock, and workflows may have been paused or published meanwhile.
  const hasWaited = [...fresh.values()].some(({ change }) => change !== null);
  const isNew = await storeAndDispatch(tx, [...fresh.values()], hasWaited ? await askListeners() : listeners);
  return asked.map((one): EventAnswer => {
    const known = accepted.get(one.id);
    if (!known) return { refused: tooManyAttributes() };
    if (!known.bodyHash.equals(one.bodyHash)) return { refused: conflictOf(one.id) };
    const { contactId, dispatched } = known;
    return { accepted: { id: one.id, contactId, isRepeated: !(fresh.has(one) && isNew.has(one.id)), dispatched } };
  });

  /** Writes the rows and what follows from them; notes in `accepted` what became of each, and answers the ids that are new. */
  async function storeAndDispatch(tx: Tx, all: readonly Fresh[], listeners: Listeners): Promise<Set<string>> {
    if (all.length === 0) return new Set();
    const events = all.flatMap(({ event, change }) => (change && listeners.want(change.type) ? [change, event] : [event]));
    const dispatched = onFault === 'throw' ? await commitAll(events, listeners) : await writeEach(tx, events, listeners);
    for (const { event } of all) {
      const { id, contactId, bodyHash } = event;
      const itsOwn = dispatched.get(id);
      if (itsOwn) accepted.set(id, { contactId, bodyHash, dispatched: itsOwn });
    }
    await readTakenMeanwhile(
      tx,
      all.map(({ event }) => event).filter(({ id }) => !dispatched.has(id)),
    );
    return new Set(dispatched.keys());
  }

  /** Writes all of them and commits, or throws. */
  async function commitAll(events: readonly EmittedEvent[], listeners: Listeners): Promise<Map<string, Dispatch[]>> {
    failPoints.reach('event.before-commit');
    const dispatched = await listeners.commit(events, storingAll(events));
    return new Map(events.map(({ id }, index) => [id, dispatched[index] ?? []]));
  }

  /** Writes those that are new. */
  async function writeEach(tx: Tx, events: readonly EmittedEvent[], listeners: Listeners): Promise<Map<string, Dispatch[]>> {
    const stored = await storeEvents(tx, events);
    const written = events.filter(({ id }) => stored.has(id));
    const dispatched = await listeners.dispatch(written);
    failPoints.reach('event.before-commit');
    return new Map(written.map(({ id }, index) => [id, dispatched[index] ?? []]));
  }

  /** Events that somebody else was taking in at the same time, and that are there by now. */
  async function readTakenMeanwhile(tx: Tx, events: readonly Fresh['event'][]): Promise<void> {
    if (events.length === 0) return;
    const taken = await readAccepted(
      tx,
      events.map(({ id }) => id),
    );
    for (const { id, bodyHash } of events) {
      const other = taken.get(id);
      if (!other) throw new Error(`The event ${id} is neither new nor known`);
      // Its contact was changed already, which must not stay.
      if (!other.bodyHash.equals(bodyHash)) throw conflictOf(id);
      accepted.set(id, other);
    }
  }
}

/** Makes or changes the contacts, in the order given. Those are missing whose contact would have too many attributes; of them nothing is written. */
async function mergeTheirContacts(tx: Tx, asked: readonly Asked[], found: Draft[]): Promise<Map<Asked, Fresh>> {
  const withContact = asked.flatMap((one) => (one.input.contact ? [{ one, contact: one.input.contact }] : []));
  const merges = await mergeContacts(
    tx,
    withContact.map(({ contact }) => contact),
    found,
  );
  const mergeOf = new Map(withContact.map(({ one }, index) => [one, merges[index]]));
  return new Map(
    asked.flatMap((one): [Asked, Fresh][] => {
      const merge = mergeOf.get(one);
      if (merge?.kind === 'too_many_attributes') return [];
      return [[one, { event: eventOf(one, merge ?? null), change: merge ? changeOf(merge) : null }]];
    }),
  );
}

function eventOf({ input, id, bodyHash }: Asked, upsert: Upsert | null): Fresh['event'] {
  return {
    id,
    type: input.type,
    contactId: upsert?.contact.id ?? null,
    contact: upsert?.contact,
    payload: input.payload,
    occurredAt: input.occurredAt ? new Date(input.occurredAt) : new Date(),
    depth: 0,
    bodyHash,
  };
}

/** What Onward itself says of an event's contact. */
const CONTACT_EVENTS = ['contact.created', 'contact.updated'] as const;

function changeOf({ contact, created, changedFields }: Upsert): EmittedEvent | null {
  if (!created && changedFields.length === 0) return null;
  const { id, externalId, email } = contact;
  const [type, payload]: [(typeof CONTACT_EVENTS)[number], Record<string, Json>] = created
    ? ['contact.created', { externalId, email }]
    : ['contact.updated', { changed: changedFields }];
  return { id: newId(), type, contactId: id, contact, payload, occurredAt: new Date(), depth: 0 };
}

function firstOfEachId(asked: readonly Asked[]): Asked[] {
  const firsts = new Map<string, Asked>();
  for (const one of asked) if (!firsts.has(one.id)) firsts.set(one.id, one);
  return [...firsts.values()];
}

function conflictOf(id: string): Problem {
  return new Problem('conflict', `An event with the id "${id}" was accepted before with another body`, {
    errors: [{ path: 'id', message: 'belongs to another event' }],
  });
}

function hashOf(input: EventInput): Buffer {
  return hash('sha256', JSON.stringify(sorted(input)), 'buffer');
}

/** The body with its keys in order, so that the same event written in another order is the same. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sorted(item)]),
  );
}
