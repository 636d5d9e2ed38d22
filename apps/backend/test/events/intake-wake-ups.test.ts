import { FailPoints } from '@onward/wire/fail-points';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Outbox } from '../../src/database/outbox.js';
import { planWakeUp } from '../../src/database/outbox.js';
import type { Tx } from '../../src/database/sql.js';
import type { EventBus } from '../../src/events/event-bus.js';
import type { Queues } from '../../src/operations/queues.js';
import { EventIntake } from '../../src/triggers/event/event-intake.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';

/** Which flush of the intake tells the queue of what was started. Half a second never passes here. */
let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterAll(async () => {
  vi.useRealTimers();
  await onward?.close();
});

/** Events of the type `starts` start a run, those of the type `slow` wait for their latch first and start none. */
function start() {
  const told: string[][] = [];
  let open = (): void => undefined;
  const latch = new Promise<void>((resolve) => {
    open = resolve;
  });
  let begin = (): void => undefined;
  const isSlowAtWork = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const listenersOf = async (tx: Tx) => ({
    want: () => false,
    commit: async (events: readonly { type: string; id: string }[]) => {
      if (events.some(({ type }) => type === 'slow')) {
        begin();
        await latch;
      }
      for (const { type, id } of events) if (type === 'starts') planWakeUp(tx, { runId: id, claimId: id, workflowId: 'w', delayMs: 0 });
      return events.map(() => []);
    },
  });
  const queues = { takes: () => true, tell: ({ wakeUps }: Outbox) => void told.push(wakeUps.map(({ runId }) => runId)) };
  const intake = new EventIntake(
    onward.source,
    queues as unknown as Queues,
    { listening: { listenersOf } } as unknown as EventBus,
    new FailPoints(),
    pino({ level: 'silent' }),
  );
  return { told, intake, isSlowAtWork, open: () => open() };
}
const event = (id: string, type: string) => [{ id, type, payload: {} }];

test('a flush that is alone tells at once', async () => {
  const { told, intake } = start();
  await intake.accept(event('w-1', 'starts'));
  expect(told).toEqual([['w-1']]);
});

test('what is held while another flush is at work is told when that one ends, also when it starts nothing', async () => {
  const { told, intake, isSlowAtWork, open } = start();
  const slow = intake.accept(event('w-2', 'slow'));
  await isSlowAtWork;
  await intake.accept(event('w-3', 'starts'));
  expect(told).toEqual([]);
  open();
  await slow;
  expect(told).toEqual([['w-3']]);
});

test('what is held is told before the process ends', async () => {
  const { told, intake, isSlowAtWork, open } = start();
  const slow = intake.accept(event('w-4', 'slow'));
  await isSlowAtWork;
  await intake.accept(event('w-5', 'starts'));
  intake.onModuleDestroy();
  expect(told).toEqual([['w-5']]);
  open();
  await slow;
});
