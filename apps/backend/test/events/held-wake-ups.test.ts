import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Outbox, PlannedWakeUp } from '../../src/database/outbox.js';
import { HeldWakeUps } from '../../src/triggers/event/held-wake-ups.js';

/** When the queue is told of the runs that events start. */
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const wakeUp = (runId: string): PlannedWakeUp => ({ runId, claimId: `claim of ${runId}`, workflowId: 'w', delayMs: 0 });
const outbox = (...runIds: string[]): Outbox => ({ wakeUps: runIds.map(wakeUp), mail: [] });

function start() {
  const told: string[][] = [];
  const asked: number[] = [];
  const held = new HeldWakeUps({
    tell: ({ wakeUps }) => void told.push(wakeUps.map(({ runId }) => runId)),
    takes: ({ planned }) => {
      asked.push(planned);
      return true;
    },
  });
  return { told, asked, held };
}

test('they are held, and told together when they are released', () => {
  const { told, held } = start();
  held.tell(outbox('a', 'b'));
  held.tell(outbox('c'));
  expect(told).toEqual([]);
  held.release();
  expect(told).toEqual([['a', 'b', 'c']]);
  held.release();
  vi.advanceTimersByTime(10_000);
  expect(told).toHaveLength(1);
});

test('none is held longer than half a second', () => {
  const { told, held } = start();
  held.tell(outbox('a'));
  vi.advanceTimersByTime(300);
  held.tell(outbox('b'));
  vi.advanceTimersByTime(199);
  expect(told).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(told).toEqual([['a', 'b']]);
});

test('not many more than 500 are held', () => {
  const { told, held } = start();
  const many = Array.from({ length: 250 }, (_, nth) => `run-${nth}`);
  held.tell(outbox(...many));
  expect(told).toEqual([]);
  held.tell(outbox(...many));
  expect(told.map(({ length }) => length)).toEqual([500]);
});

test('mail is told at once', () => {
  const told: Outbox[] = [];
  const held = new HeldWakeUps({ tell: (one) => void told.push(one), takes: () => true });
  held.tell({ wakeUps: [wakeUp('a')], mail: [{ messageId: 'm', try: 1 }] });
  expect(told).toEqual([{ wakeUps: [], mail: [{ messageId: 'm', try: 1 }] }]);
});

test('that a run is left in its row is told at once, and not again with what is held', () => {
  const told: Outbox[] = [];
  const held = new HeldWakeUps({ tell: (one) => void told.push(one), takes: () => true });
  held.tell({ ...outbox('a'), isRunLeft: true });
  expect(told).toEqual([{ wakeUps: [], mail: [], isRunLeft: true }]);
  held.release();
  expect(told.at(-1)).toEqual(outbox('a'));
});

test('whether the queue takes one more is asked with those that are held', () => {
  const { asked, held } = start();
  held.tell(outbox('a', 'b'));
  expect(held.takes({ workflowId: 'w', planned: 3, isDelayed: false })).toBe(true);
  expect(asked).toEqual([5]);
});
