/**
 * pg-boss, a queue table, with the batching written by hand: 4 workers take 50 jobs each, told by NOTIFY; the next jobs of all of them are
 * inserted in one statement, then the batch is completed. Not one transaction, and no state of a run: the most a queue table gives, not
 * what a user gets by default.
 */
import { PgBoss } from 'pg-boss';
import { batches, firstState, STEPS, trivialStep } from './trivial-step.mjs';

const QUEUE = 'steps';

export async function start({ postgresUrl, onRunEnded }) {
  const boss = new PgBoss({ connectionString: postgresUrl, max: 20, useListenNotify: true });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  await boss.work(QUEUE, { batchSize: 50, localConcurrency: 4, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true }, async (jobs) => {
    const next = [];
    let ended = 0;
    for (const { data } of jobs) {
      const state = trivialStep(data.state, data.nth);
      if (data.nth + 1 < STEPS) next.push({ data: { id: data.id, nth: data.nth + 1, state } });
      else ended += 1;
    }
    if (next.length > 0) await boss.insert(QUEUE, next);
    for (; ended > 0; ended -= 1) onRunEnded();
  });
  return {
    async startRuns(ids) {
      for (const batch of batches(ids, 200)) {
        await boss.insert(
          QUEUE,
          batch.map((id) => ({ data: { id, nth: 0, state: firstState } })),
        );
      }
    },
    close: () => boss.stop({ graceful: false }),
  };
}
