import { it } from 'vitest';
import { backendForTest } from './shim.js';
it('boots', async () => {
  const b = await backendForTest();
  console.log(JSON.stringify(await b.api('GET', '/workflows')));
  console.log(JSON.stringify(await b.api('POST', '/workflows', { name: 'x', graph: { nodes: [], edges: [] } })));
  console.log(JSON.stringify(await b.api('POST', '/workflows', { name: 'x' })));
  await b.close();
});
