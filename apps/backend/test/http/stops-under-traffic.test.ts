import { Agent, request } from 'node:http';
import { createBackend } from '../../src/create-backend.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest();
});
afterAll(() => onward?.close());

test('a client that goes on asking over a connection that was busy when the backend was told to stop does not keep it from ending', async () => {
  const closing = await createBackend({ ...onward.settings, port: 0, rpcPort: 0 });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (method: string, path: string, body?: string) =>
    new Promise<{ status: number; connection?: string | undefined }>((resolve) => {
      const headers = { authorization: `Bearer ${onward.apiKey}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) };
      const asked = request({ port: closing.port, method, path: `/api/v1${path}`, agent, headers }, (response) => {
        response.resume();
        response.once('end', () => resolve({ status: response.statusCode ?? 0, connection: response.headers.connection }));
        response.once('error', () => resolve({ status: 0 }));
      });
      asked.once('error', () => resolve({ status: 0 }));
      asked.end(body);
    });

  // The first request is held up in the middle by a row that somebody else has locked.
  const [made] = await rows<{ id: string }>(onward.source, `INSERT INTO contacts (id, email) VALUES (gen_random_uuid(), 'busy@example.test') RETURNING id`);
  const runner = onward.source.createQueryRunner();
  await runner.startTransaction();
  await runner.query('SELECT 1 FROM contacts WHERE id = $1 FOR UPDATE', [made?.id]);
  const busy = ask('POST', '/contacts', JSON.stringify({ email: 'busy@example.test', attributes: { a: 1 } }));
  const isBlocked = async () =>
    (
      await rows<{ count: number }>(onward.source, `SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
    )[0]?.count;
  await expect.poll(isBlocked, { timeout: 30_000, interval: 50 }).toBe(1);

  let isClosed = false;
  const closed = closing.close().finally(() => {
    isClosed = true;
  });
  await runner.rollbackTransaction();
  await runner.release();
  const answered = await busy;
  expect(answered.status).toBeLessThan(300);
  expect(answered.connection).toBe('close');
  const goingOn = (async () => {
    while (!isClosed) if ((await ask('GET', '/contacts')).status === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  })();
  await closed;
  await goingOn;
  agent.destroy();
}, 60_000);
