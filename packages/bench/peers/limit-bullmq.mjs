/** BullMQ by itself, jobs that carry an id: `add`: added one by one, each awaited; `add-bulk`: 100 a call, 2 calls in flight; `process-1`, `process-50`: a processor that does nothing, so many at a time. */
import { Queue, Worker } from 'bullmq';
import { batches, inFlight } from './trivial-step.mjs';

const OPTIONS = { removeOnComplete: true, removeOnFail: true };
const jobOf = (id) => ({ name: 'wake', data: { id }, opts: OPTIONS });

export async function start({ variant, valkeyUrl, onRunEnded }) {
  const { hostname: host, port, password } = new URL(valkeyUrl);
  const connection = { host, port: Number(port), ...(password === '' ? {} : { password }), maxRetriesPerRequest: null };
  const queue = new Queue('limit', { connection });
  await queue.waitUntilReady();
  await queue.obliterate({ force: true });
  const [verb, concurrency] = variant.split('-');
  const addMany = (ids) => inFlight([...batches(ids, 100)], 2, (batch) => queue.addBulk(batch.map(jobOf)));
  const workers = [];
  return {
    async prepareRuns(ids) {
      // One that is left from the runs before would take these before their time.
      await Promise.all(workers.splice(0).map((worker) => worker.close()));
      if (verb === 'process') await addMany(ids);
    },
    async startRuns(ids) {
      if (verb === 'process') {
        workers.push(new Worker('limit', async () => onRunEnded(), { connection, concurrency: Number(concurrency) }));
        return;
      }
      if (concurrency === 'bulk') await addMany(ids);
      else for (const id of ids) await queue.add('wake', { id }, OPTIONS);
      for (const _ of ids) onRunEnded();
    },
    async close() {
      await Promise.all(workers.map((worker) => worker.close()));
      await queue.obliterate({ force: true });
      await queue.close();
    },
  };
}
