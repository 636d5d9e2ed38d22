/**
 * DBOS: a durable workflow of ten durable steps. `direct`: 100 workflows in flight, its best mode. `queue`: through its queue, 100 at a
 * time, with the poll of a second that it ships.
 */
import { DBOS } from '@dbos-inc/dbos-sdk';
import { firstState, inFlight, STEPS, trivialStep } from './trivial-step.mjs';

export async function start({ variant, postgresUrl, onFirstStep, onRunEnded }) {
  DBOS.setConfig({ name: 'bench', systemDatabaseUrl: postgresUrl, logLevel: 'error', systemDatabasePoolSize: 20 });
  const workflow = DBOS.registerWorkflow(
    async (input) => {
      let state = input;
      for (let nth = 0; nth < STEPS; nth += 1) {
        const before = state;
        const step = async () => {
          if (nth === 0) onFirstStep(input.id);
          return trivialStep(before, nth);
        };
        state = await DBOS.runStep(step, { name: `s${nth}` });
      }
      if (variant === 'queue') onRunEnded();
      return state;
    },
    { name: 'workflow' },
  );
  await DBOS.launch();
  if (variant === 'queue') await DBOS.registerQueue('runs', { workerConcurrency: 100 });
  return {
    startRuns: (ids) =>
      variant === 'queue'
        ? inFlight(ids, 32, (id) => DBOS.startWorkflow(workflow, { queueName: 'runs' })({ id, ...firstState }))
        : inFlight(ids, 100, async (id) => {
            const handle = await DBOS.startWorkflow(workflow)({ id, ...firstState });
            await handle.getResult();
            onRunEnded();
          }),
    close: () => DBOS.shutdown(),
  };
}
