import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readSettings } from '../../src/settings.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun, tag } from './hand-worker.js';

const previous = randomBytes(32).toString('hex');
let onward: BackendForTest;
const workers: HandWorker[] = [];
beforeAll(async () => {
  onward = await backendForTest({ BACKEND_MICROSERVICE_SECRET_PREVIOUS: previous });
});
afterAll(async () => {
  for (const worker of workers) worker.close();
  await onward?.close();
});

function workerWith(secret?: string): HandWorker {
  const worker = new HandWorker(onward, secret);
  workers.push(worker);
  return worker;
}

test('while the secret is replaced a worker with the old one works on beside one with the new', async () => {
  const workflowId = await publish(onward, line(tag('a'), tag('b')));
  const [old, fresh] = [workerWith(previous), workerWith()];
  for (const [one, other] of [
    [old, fresh],
    [fresh, old],
  ] as const) {
    const { runId } = await startRun(onward, workflowId);
    const { at } = await one.begin(runId);
    // What one has begun the other may end: the claim counts, not the secret.
    expect(await other.frame(['advance', at], ['create', at], ['execute', at])).toMatchObject([{ kind: 'advanced' }, {}, {}]);
  }
});

test('a worker with a third secret is refused', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  await expect(workerWith(randomBytes(32).toString('hex')).begin(runId)).rejects.toMatchObject({ name: 'RpcFault', code: 'unauthenticated' });
});

test('a previous secret that is too short stops the start, and an empty one counts as none', () => {
  const env = {
    DATABASE_URL: onward.databaseUrl,
    VALKEY_URL: onward.valkeyUrl,
    BACKEND_MICROSERVICE_SECRET: 'x'.repeat(32),
    ONWARD_SECRET_KEY: 'y'.repeat(32),
  };
  expect(() => readSettings({ ...env, BACKEND_MICROSERVICE_SECRET_PREVIOUS: 'short' })).toThrow('BACKEND_MICROSERVICE_SECRET_PREVIOUS');
  expect(readSettings({ ...env, BACKEND_MICROSERVICE_SECRET_PREVIOUS: '' }).rpcSecrets).toEqual([env.BACKEND_MICROSERVICE_SECRET]);
  expect(readSettings({ ...env, BACKEND_MICROSERVICE_SECRET_PREVIOUS: previous }).rpcSecrets).toEqual([env.BACKEND_MICROSERVICE_SECRET, previous]);
});
