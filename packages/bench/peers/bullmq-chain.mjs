/** BullMQ: a chain of ten jobs, 50 at a time. Not durable: what Valkey took in its last second a crash loses. */
import { Queue, Worker } from 'bullmq';
import { batches, firstState, STEPS, trivialStep } from './trivial-step.mjs';

const OPTIONS = { removeOnComplete: true, removeOnFail: true };

export async function start({ valkeyUrl, onRunEnded }) {
  const { hostname: host, port, username, password } = new URL(valkeyUrl);
  const connection = {
    host,
    port: Number(port),
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    maxRetriesPerRequest: null,
  };
  const queue = new Queue('steps', { connection });
  await queue.waitUntilReady();
  await queue.obliterate({ force: true });
  const worker = new Worker(
    'steps',
    async ({ data: { id, nth, state } }) => {
      const next = trivialStep(state, nth);
      if (nth + 1 < STEPS) await queue.add('step', { id, nth: nth + 1, state: next }, OPTIONS);
      else onRunEnded();
    },
    { connection, concurrency: 50 },
  );
  await worker.waitUntilReady();
  return {
    async startRuns(ids) {
      for (const batch of batches(ids, 100)) await queue.addBulk(batch.map((id) => ({ name: 'step', data: { id, nth: 0, state: firstState }, opts: OPTIONS })));
    },
    async close() {
      await worker.close();
      await queue.close();
    },
  };
}
