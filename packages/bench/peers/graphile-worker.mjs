/** graphile-worker: a chain of ten jobs, 24 at a time. `default`, and `tuned`: a local queue of 100 and completions in batches. */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { batches, firstState, STEPS, trivialStep } from './trivial-step.mjs';

const TUNED = { localQueue: { size: 100 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

export async function start({ variant, postgresUrl, onRunEnded }) {
  const logger = new Logger(() => () => {});
  const preset = { worker: { connectionString: postgresUrl, concurrentJobs: 24, maxPoolSize: 26, ...(variant === 'tuned' ? TUNED : {}) } };
  const taskList = {
    async step({ id, nth, state }, { addJob }) {
      const next = trivialStep(state, nth);
      if (nth + 1 < STEPS) await addJob('step', { id, nth: nth + 1, state: next });
      else onRunEnded();
    },
  };
  const runner = await run({ preset, taskList, logger, noHandleSignals: true, connectionString: postgresUrl });
  const utils = await makeWorkerUtils({ connectionString: postgresUrl, logger, maxPoolSize: 20 });
  return {
    async startRuns(ids) {
      for (const batch of batches(ids, 200)) await utils.addJobs(batch.map((id) => ({ identifier: 'step', payload: { id, nth: 0, state: firstState } })));
    },
    async close() {
      await runner.stop();
      await utils.release();
    },
  };
}
