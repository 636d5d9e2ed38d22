import { afterAll, beforeAll, expect, it } from 'vitest';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
let backend: BackendForTest;
beforeAll(async () => { backend = await backendForTest(); });
afterAll(() => backend.close());
it('boots', async () => {
  const a = await backend.api('GET', '/contacts');
  console.log(a.status, JSON.stringify(a.body));
  const d = await backend.api('GET', '//api/docs/openapi.json', undefined);
  console.log(d.status, JSON.stringify(d.body).slice(0, 600));
  expect(a.status).toBe(200);
});
