import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ActionCatalogue } from '../../src/actions/action-catalogue.js';
import { forwardRequest } from '../../src/actions/forward-request/forward-request.action.js';
import type { Action } from '../../src/actions/action.js';
import { newId } from '../../src/database/new-id.js';
import { change } from '../../src/database/sql.js';
import { VersionReader } from '../../src/workflows/read-version.js';
import { type MailBench, mailBench } from '../mail/mail-bench.js';
import { edge, end, tag, trigger } from './graphs.js';

let bench: MailBench;
beforeAll(async () => {
  bench = await mailBench();
});
afterAll(() => bench.close());

const reader = () => new VersionReader(new ActionCatalogue([forwardRequest({ secretKey: 's' }) as Action<unknown>], pino({ level: 'silent' })));

let nextNumber = 2;

async function version(graph: unknown, settings: unknown = { reentry: 'never', notify: [] }): Promise<string> {
  const id = newId();
  await change(
    bench.source,
    `INSERT INTO workflow_versions (id, workflow_id, number, graph, settings, published_by)
     VALUES ($1, $2, $3, $4, $5, 'test')`,
    [id, bench.workflowId, nextNumber++, JSON.stringify(graph), JSON.stringify(settings)],
  );
  return id;
}

const call = { id: 'call', type: 'action', config: { action: 'FORWARD_REQUEST', with: {}, uncertain: 'stop' } };

describe('reading a version', () => {
  it('gives its graph, compiled, its settings and the plan that workers judge by', async () => {
    const id = await version({
      nodes: [trigger, call, tag('a'), end],
      edges: [edge('start', 'call'), edge('call', 'a'), edge('call', 'finish', 'failed'), edge('a', 'finish')],
    });
    const read = await reader().get(bench.source, id);
    expect(read).toMatchObject({ versionId: id, workflowId: bench.workflowId, settings: { reentry: 'never' } });
    expect(read.compiled.trigger).toBe('start');
    expect(read.plan.nodes).toMatchObject({
      call: { performedBy: 'worker', hasFailedPort: true, uncertainPolicy: 'stop', action: 'FORWARD_REQUEST' },
      a: { performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' },
    });
    expect(read.planNode('call')).toBe(read.plan.nodes['call']);
  });

  it('is done once: a version never changes, so what was read holds though its row is gone', async () => {
    const id = await version({ nodes: [], edges: [] });
    const versions = reader();
    const first = await versions.get(bench.source, id);
    await change(bench.source, 'DELETE FROM workflow_versions WHERE id = $1', [id]);
    expect(await versions.get(bench.source, id)).toBe(first);
  });

  it('keeps the 1,000 used last', async () => {
    const versions = reader();
    const ids = await Promise.all(Array.from({ length: 1_001 }, () => version({ nodes: [], edges: [] })));
    const [first = '', second = '', ...others] = ids;
    for (const id of [first, second, ...others.slice(0, -1)]) await versions.get(bench.source, id);
    await versions.get(bench.source, first);
    await versions.get(bench.source, others.at(-1) ?? '');
    await change(bench.source, 'DELETE FROM workflow_versions WHERE id = ANY ($1)', [[first, second]]);
    expect((await versions.get(bench.source, first)).versionId).toBe(first);
    await expect(versions.get(bench.source, second)).rejects.toThrow(second);
  });

  it('a defective one is read as far as it goes, with the usual settings', async () => {
    const id = await version({ nodes: [null, { id: 'fax', type: 'SEND_FAX' }], edges: 5 }, 'odd');
    const read = await reader().get(bench.source, id);
    expect(read.settings).toEqual({ reentry: 'after_finishing', notify: [] });
    expect(read.compiled.node('fax')?.type).toBe('SEND_FAX');
    for (const missing of ['ghost', 'constructor', '__proto__']) expect(read.planNode(missing)).toMatchObject({ type: 'unknown', hasFailedPort: false });
  });
});
