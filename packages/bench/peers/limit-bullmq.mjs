/** BullMQ by itself, jobs that carry an id: `add`: added one by one, each awaited; `add-bulk`: 100 a call, 2 calls in flight; `process-1`, `process-50`: a processor that does nothing, so many at a time; `wake`: a worker that waits, jobs added one by one. */
import { Queue, Worker } from 'bullmq';
import { batches, inFlight } from './trivial-step.mjs';

const OPTIONS = { removeOnComplete: true, removeOnFail: true };
const jobOf = (id) => ({ name: 'wake', data: { id }, opts: OPTIONS });

export async function start({ variant, valkeyUrl, onFirstStep, onRunEnded }) {
  const { hostname: host, port, password } = new URL(valkeyUrl);
  const connection = { host, port: Number(port), ...(password === '' ? {} : { password }), maxRetriesPerRequest: null };
  const queue = new Queue('limit', { connection });
  await queue.waitUntilReady();
  await queue.obliterate({ force: true });
  const [verb, concurrency] = variant.split('-');
  const addMany = (ids) => inFlight([...batches(ids, 100)], 2, (batch) => queue.addBulk(batch.map(jobOf)));
  const workers = [];
  const takeUp = async ({ data }) => {
    onFirstStep(data.id);
    onRunEnded();
  };
  return {
    async prepareRuns(ids) {
      if (verb === 'wake') return;
      // One that is left from the runs before would take these before their time.
      await Promise.all(workers.splice(0).map((worker) => worker.close()));
      if (verb === 'process') await addMany(ids);
    },
    async startRuns(ids) {
      if (verb === 'wake') {
        if (workers.length === 0) workers.push(new Worker('limit', takeUp, { connection }));
        for (const id of ids) await queue.add('wake', { id }, OPTIONS);
        return;
      }
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
