import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { change, rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { BAD_SHAPES, edge, end, goodGraph, tag, type TestGraph, trigger, UNFINISHED } from './graphs.js';

type Defect = { code: string; node?: string; edge?: string; path: string; message: string };
type Workflow = { id: string; status: string; revision: number; problems: Defect[]; versionProblems: Defect[]; graph: TestGraph } & Record<string, unknown>;

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
});
afterAll(() => backend.close());

const api = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => backend.api(method, path, body, headers && { headers });

async function made(graph: unknown = goodGraph(), name = 'Welcome'): Promise<string> {
  const { status, body } = await api('POST', '/workflows', { name, graph });
  expect(status).toBe(201);
  return (body as Workflow).id;
}

async function madePublished(): Promise<string> {
  const id = await made();
  expect((await api('POST', `/workflows/${id}/publish`)).status).toBe(200);
  return id;
}

async function got(id: string): Promise<Workflow> {
  const { status, body } = await api('GET', `/workflows/${id}`);
  expect(status).toBe(200);
  return body as Workflow;
}

const stored = () => rows(backend.source, 'SELECT id, draft, revision, updated_at FROM workflows ORDER BY id');
const errorsOf = (body: unknown) => (body as { errors: Defect[] }).errors;

async function aRunOf(workflowId: string): Promise<void> {
  await change(
    backend.source,
    `INSERT INTO runs (id, workflow_id, version_id, state, node, seq, claim_id, ended_at)
     SELECT $2, id, version_id, 'succeeded', 'finish', 3, $2, now() FROM workflows WHERE id = $1`,
    [workflowId, newId()],
  );
}

describe('a draft', () => {
  it('is what creating makes, with its defaults, its trigger kept beside it', async () => {
    const id = await made();
    expect(await got(id)).toMatchObject({
      name: 'Welcome',
      description: '',
      status: 'draft',
      revision: 1,
      trigger: null,
      draftTrigger: { type: 'event', event: 'order.paid' },
      version: null,
      archivedAt: null,
      settings: { reentry: 'after_finishing', notify: [] },
      problems: [],
      versionProblems: [],
    });
  });

  it('is changed in part by PATCH and as a whole by PUT; each change raises its revision', async () => {
    const id = await made();
    const manual = { nodes: [{ ...trigger, config: { type: 'manual' } }, end], edges: [edge('start', 'finish')] };
    expect((await api('PATCH', `/workflows/${id}`, { name: 'Other' })).body).toMatchObject({ name: 'Other', revision: 2, draftTrigger: { type: 'event' } });
    const patched = await api('PATCH', `/workflows/${id}`, { graph: manual, settings: { reentry: 'never', notify: ['a@example.test'] } });
    expect(patched.body).toMatchObject({
      name: 'Other',
      revision: 3,
      draftTrigger: { type: 'manual' },
      settings: { reentry: 'never', notify: ['a@example.test'] },
    });
    expect((await api('PUT', `/workflows/${id}`, { name: 'Whole', graph: goodGraph() })).body).toMatchObject({
      name: 'Whole',
      revision: 4,
      settings: { reentry: 'after_finishing', notify: [] },
    });
    expect((await api('PATCH', `/workflows/${id}`, { graph: { nodes: [end], edges: [] } })).body).toMatchObject({ revision: 5, draftTrigger: null });
  });

  it('is not overwritten when somebody else has changed it since it was read', async () => {
    const id = await made();
    const patch = (ifMatch: string) => api('PATCH', `/workflows/${id}`, { name: 'Mine' }, { 'if-match': ifMatch });
    expect((await patch('"1"')).status).toBe(200);
    expect((await patch('"1"')).status).toBe(409);
    expect((await patch('2')).status).toBe(200);
    expect((await patch('*')).status).toBe(200);
    expect((await api('POST', `/workflows/${id}/publish`, undefined, { 'if-match': '"3"' })).status).toBe(409);
    for (const malformed of ['"a"', '1, 2', 'W/"1"', '-1', '1.5', '9'.repeat(20)]) {
      const { status, body } = await patch(malformed);
      expect([status, errorsOf(body).map(({ path }) => path)]).toEqual([400, ['If-Match']]);
    }
  });

  it('of two changes read from one revision, sent at once, one is refused', async () => {
    const id = await made();
    const answers = await Promise.all(['A', 'B', 'C'].map((name) => api('PATCH', `/workflows/${id}`, { name }, { 'if-match': '1' })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    expect((await got(id)).revision).toBe(2);
  });

  it('may have 1,000 nodes', async () => {
    const nodes = [trigger, ...Array.from({ length: 998 }, (_, index) => tag(`n${index}`)), end];
    const graph = { nodes, edges: nodes.slice(1).map((node, index) => edge(nodes[index]?.id ?? '', node.id)) };
    const id = await made(graph);
    expect((await api('POST', `/workflows/${id}/publish`)).status).toBe(200);
  });
});

describe('F19: structural defects', () => {
  it.each(BAD_SHAPES)('F19: %s is refused by create, PUT and PATCH with every defect in one answer, and nothing is stored', async (_, graph, defects) => {
    const id = await made();
    const before = await stored();
    const answers = [
      await api('POST', '/workflows', { name: 'Bad', graph }),
      await api('PUT', `/workflows/${id}`, { name: 'Bad', graph }),
      await api('PATCH', `/workflows/${id}`, { graph }),
    ];
    for (const { status, body } of answers) {
      expect(status).toBe(422);
      expect(errorsOf(body)).toHaveLength(defects.length);
      expect(errorsOf(body)).toEqual(expect.arrayContaining(defects.map((defect) => expect.objectContaining({ ...defect, message: expect.any(String) }))));
    }
    expect(await stored()).toEqual(before);
  });

  it.each(UNFINISHED)('F19: %s is saved as a draft, listed as its problem, and refused by publish in the same form', async (_, graph, defects) => {
    const wanted = expect.arrayContaining(defects.map((defect) => expect.objectContaining(defect)));
    const id = await made(graph);
    expect((await got(id)).problems).toEqual(wanted);
    const validation = await api('POST', `/workflows/${id}/validate`);
    expect(validation).toMatchObject({ status: 200, body: { valid: false, defects: wanted } });
    expect((await api('POST', '/workflows/validate', { graph })).body).toEqual(validation.body);
    const { status, body } = await api('POST', `/workflows/${id}/publish`);
    expect(status).toBe(422);
    expect(errorsOf(body)).toEqual(wanted);
    expect(await got(id)).toMatchObject({ status: 'draft', version: null });
  });

  it.each([
    ['null', null],
    ['a text', 'graph'],
    ['a list', []],
    ['no nodes', {}],
    ['nodes that are none', { nodes: [null, 5, { id: 7 }, { id: 'a' }], edges: [null, { from: 'a' }] }],
    ['a dangling edge', { nodes: [trigger, end], edges: [edge('start', 'ghost'), edge('start', 'finish')] }],
    ['a trigger that cannot be read', { nodes: [{ id: 'start', type: 'trigger', config: 5 }], edges: [] }],
  ])('F19: a defective row placed in the database (%s) opens with its problems, cannot be activated, and can be mended', async (_, draft) => {
    const id = newId();
    await change(backend.source, `INSERT INTO workflows (id, name, draft, draft_trigger, settings) VALUES ($1, 'By hand', $2, '"odd"', '[]')`, [
      id,
      JSON.stringify(draft),
    ]);
    const opened = await got(id);
    expect(opened.problems.length).toBeGreaterThan(0);
    expect(opened.graph).toEqual(draft);
    expect((await api('GET', '/workflows')).status).toBe(200);
    expect((await api('POST', `/workflows/${id}/validate`)).body).toMatchObject({ valid: false });
    expect((await api('POST', `/workflows/${id}/publish`)).status).toBe(422);
    expect((await api('PATCH', `/workflows/${id}`, { name: 'Renamed' })).status).toBe(200);
    expect((await api('PATCH', `/workflows/${id}`, { graph: goodGraph(), settings: {} })).body).toMatchObject({ problems: [] });
    expect((await api('POST', `/workflows/${id}/publish`)).body).toMatchObject({ status: 'active' });
  });
});

describe('F20: an unknown node type in what runs', () => {
  it('F20: is shown naming the node, and the workflow can be paused, resumed, edited and published anew', async () => {
    const id = await madePublished();
    const other = await madePublished();
    await change(backend.source, `UPDATE workflow_versions SET graph = jsonb_set(graph, '{nodes,1,type}', '"SEND_FAX"') WHERE workflow_id = $1`, [id]);
    expect(await got(id)).toMatchObject({
      status: 'active',
      problems: [],
      versionProblems: [expect.objectContaining({ code: 'unknown_node_type', node: 'a' })],
    });
    expect(await got(other)).toMatchObject({ status: 'active', versionProblems: [] });
    expect((await api('POST', `/workflows/${id}/pause`)).body).toMatchObject({ status: 'paused' });
    expect((await api('PATCH', `/workflows/${id}`, { name: 'Mended' })).status).toBe(200);
    expect((await api('POST', `/workflows/${id}/resume`)).body).toMatchObject({ status: 'active' });
    expect((await api('POST', `/workflows/${id}/publish`)).body).toMatchObject({ status: 'active', versionProblems: [] });
  });
});

describe('publishing', () => {
  it('makes the draft version 1, active, with its trigger where dispatchers read it; then version 2, and runs could stay on 1', async () => {
    const id = await made();
    expect((await api('POST', `/workflows/${id}/publish`)).body).toMatchObject({
      status: 'active',
      trigger: { type: 'event', event: 'order.paid' },
      version: { number: 1 },
    });
    const changed = { ...goodGraph(), nodes: [{ ...trigger, config: { type: 'event', event: 'order.sent' } }, tag('a'), end] };
    const draft = (await api('PATCH', `/workflows/${id}`, { graph: changed, settings: { reentry: 'always' } })).body;
    expect(draft).toMatchObject({ trigger: { event: 'order.paid' }, draftTrigger: { event: 'order.sent' }, version: { number: 1 } });
    expect((await api('POST', `/workflows/${id}/publish`)).body).toMatchObject({ status: 'active', trigger: { event: 'order.sent' }, version: { number: 2 } });

    const [first, second] = [(await api('GET', `/workflows/${id}/versions/1`)).body, (await api('GET', `/workflows/${id}/versions/2`)).body];
    expect(first).toMatchObject({
      number: 1,
      graph: { nodes: [{ config: { event: 'order.paid' } }, {}, {}] },
      settings: { reentry: 'after_finishing' },
      publishedBy: expect.any(String),
    });
    expect(second).toMatchObject({ number: 2, graph: { nodes: [{ config: { event: 'order.sent' } }, {}, {}] }, settings: { reentry: 'always' } });
    expect((await api('GET', `/workflows/${id}/versions`)).body).toMatchObject({ items: [{ number: 2 }, { number: 1 }], nextCursor: null });
    expect((await api('GET', `/workflows/${id}/versions/3`)).status).toBe(404);
  });

  it('names whose key it was', async () => {
    const id = await madePublished();
    const keys = await rows<{ name: string }>(backend.source, 'SELECT name FROM api_keys');
    const { body } = await api('GET', `/workflows/${id}/versions/1`);
    expect(keys.map(({ name }) => name)).toContain((body as { publishedBy: string }).publishedBy);
  });

  it('leaves a paused workflow paused', async () => {
    const id = await madePublished();
    await api('POST', `/workflows/${id}/pause`);
    expect((await api('POST', `/workflows/${id}/publish`)).body).toMatchObject({ status: 'paused', version: { number: 2 } });
  });

  it('five times at once makes five versions without gap or repeat', async () => {
    const id = await made();
    const answers = await Promise.all(Array.from({ length: 5 }, () => api('POST', `/workflows/${id}/publish`)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    const { body } = await api('GET', `/workflows/${id}/versions`);
    expect((body as { items: { number: number }[] }).items.map(({ number }) => number)).toEqual([5, 4, 3, 2, 1]);
  });

  it('warns when an event starts what needs a contact, and does it all the same', async () => {
    const { body } = await api('POST', '/workflows/validate', { graph: goodGraph() });
    expect(body).toMatchObject({ valid: true, defects: [], warnings: [expect.objectContaining({ code: 'needs_contact' })] });
  });

  it('settings written by hand that cannot be read are refused and named', async () => {
    const id = await made();
    await change(backend.source, `UPDATE workflows SET settings = '{"reentry":"sometimes"}' WHERE id = $1`, [id]);
    const { status, body } = await api('POST', `/workflows/${id}/publish`);
    expect([status, errorsOf(body).map(({ path }) => path)]).toEqual([422, ['settings.reentry']]);
  });

  it('F18: a loop without a pause is refused with the nodes of the cycle', async () => {
    const id = await made({ nodes: [trigger, tag('a'), tag('b')], edges: [edge('start', 'a'), edge('a', 'b'), edge('b', 'a')] });
    const { status, body } = await api('POST', `/workflows/${id}/publish`);
    expect(status).toBe(422);
    expect(errorsOf(body)).toContainEqual(expect.objectContaining({ code: 'cycle_without_wait', nodes: expect.arrayContaining(['a', 'b']) }));
  });
});

describe('the status of a workflow', () => {
  const STATES = {
    draft: async () => made(),
    active: madePublished,
    paused: async () => {
      const id = await madePublished();
      await api('POST', `/workflows/${id}/pause`);
      return id;
    },
    'archived draft': async () => {
      const id = await made();
      await api('POST', `/workflows/${id}/archive`);
      return id;
    },
    'archived paused': async () => {
      const id = await madePublished();
      await api('POST', `/workflows/${id}/pause`);
      await api('POST', `/workflows/${id}/archive`);
      return id;
    },
  };
  /** What each request makes of each state; 409 where it is refused. */
  const MOVES: Record<string, Record<keyof typeof STATES, string | 409>> = {
    publish: { draft: 'active', active: 'active', paused: 'paused', 'archived draft': 409, 'archived paused': 409 },
    pause: { draft: 409, active: 'paused', paused: 'paused', 'archived draft': 409, 'archived paused': 'archived paused' },
    resume: { draft: 409, active: 'active', paused: 'active', 'archived draft': 409, 'archived paused': 409 },
    archive: { draft: 'archived draft', active: 409, paused: 'archived paused', 'archived draft': 'archived draft', 'archived paused': 'archived paused' },
    unarchive: { draft: 'draft', active: 'active', paused: 'paused', 'archived draft': 'draft', 'archived paused': 'paused' },
  };
  const cases = Object.entries(MOVES).flatMap(([move, row]) =>
    (Object.keys(STATES) as (keyof typeof STATES)[]).map((state) => [move, state, row[state]] as const),
  );

  it.each(cases)('%s of one that is %s: %s', async (move, state, expected) => {
    const id = await STATES[state]();
    const { status, body } = await api('POST', `/workflows/${id}/${move}`);
    const after = await got(id);
    const seen = `${after['archivedAt'] === null ? '' : 'archived '}${after.status}`;
    if (expected === 409) expect([status, seen]).toEqual([409, state]);
    else {
      expect([status, seen]).toEqual([200, expected]);
      expect(body).toEqual(after);
    }
  });

  it('an archived workflow is kept as it is and out of the usual list', async () => {
    const id = await STATES['archived draft']();
    expect((await api('PATCH', `/workflows/${id}`, { name: 'x' })).status).toBe(409);
    const listed = async (query: string) =>
      ((await api('GET', `/workflows?limit=200${query}`)).body as { items: Workflow[] }).items.map((workflow) => workflow.id);
    expect(await listed('')).not.toContain(id);
    expect(await listed('&archived=true')).toContain(id);
  });

  it('one that never had a run is deleted, versions and all; one that had, or is active, is not', async () => {
    const fresh = await STATES.paused();
    expect((await api('DELETE', `/workflows/${fresh}`)).status).toBe(204);
    expect((await api('GET', `/workflows/${fresh}`)).status).toBe(404);
    expect(await rows(backend.source, 'SELECT 1 FROM workflow_versions WHERE workflow_id = $1', [fresh])).toEqual([]);

    const active = await STATES.active();
    expect((await api('DELETE', `/workflows/${active}`)).status).toBe(409);

    const used = await STATES.paused();
    await aRunOf(used);
    expect((await api('DELETE', `/workflows/${used}`)).status).toBe(409);
    expect((await got(used)).status).toBe('paused');
  });
});

describe('lists', () => {
  it('pages through all, each once, and filters by status', async () => {
    const name = `Paged ${newId()}`;
    const ids = await Promise.all(Array.from({ length: 7 }, () => made(goodGraph(), name)));
    await change(backend.source, `UPDATE workflows SET created_at = '2026-01-01T00:00:00.123456Z' WHERE name = $1`, [name]);
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const { body } = await api('GET', `/workflows?limit=3&status=draft${cursor === '' ? '' : `&cursor=${cursor}`}`);
      const page = body as { items: Workflow[]; nextCursor: string | null };
      seen.push(...page.items.filter((workflow) => workflow['name'] === name).map(({ id }) => id));
      expect(page.items.every(({ status }) => status === 'draft')).toBe(true);
      cursor = page.nextCursor;
    }
    expect(seen.toSorted()).toEqual(ids.toSorted());
  });

  it('does not carry graphs', async () => {
    const { body } = await api('GET', '/workflows?limit=1');
    expect((body as { items: Workflow[] }).items[0]).not.toHaveProperty('graph');
  });
});

describe('bad input', () => {
  it.each([
    ['no name', { graph: goodGraph() }, 'name'],
    ['a blank name', { name: '  ', graph: goodGraph() }, 'name'],
    ['a name too long', { name: 'x'.repeat(201), graph: goodGraph() }, 'name'],
    ['no graph', { name: 'x' }, 'graph'],
    ['a field that is not known', { name: 'x', graph: goodGraph(), status: 'active' }, 'status'],
    ['a setting that is not known', { name: 'x', graph: goodGraph(), settings: { retries: 1 } }, 'settings.retries'],
    ['a wrong re-entry rule', { name: 'x', graph: goodGraph(), settings: { reentry: 'sometimes' } }, 'settings.reentry'],
    ['an address that is none', { name: 'x', graph: goodGraph(), settings: { notify: ['a@example.test', 'nobody'] } }, 'settings.notify.1'],
  ])('creating with %s is a 400 that names the field', async (_, body, path) => {
    const answer = await api('POST', '/workflows', body);
    expect(answer.status).toBe(400);
    expect(errorsOf(answer.body).map((error) => error.path)).toEqual([path]);
  });

  it.each([
    ['a graph that is a text', 'graph'],
    ['a graph that is null', null],
    ['a graph with a field that is not known', { nodes: [], edges: [], extra: 1 }],
    ['a node id that is no slug', { nodes: [{ id: 'Not A Slug', type: 'end' }], edges: [] }],
  ])('%s is a 422 with its defects', async (_, graph) => {
    const { status, body } = await api('POST', '/workflows', { name: 'x', graph });
    expect([status, errorsOf(body)[0]?.code]).toEqual([422, 'shape']);
  });

  it('a PATCH of nothing is a 400', async () => {
    expect((await api('PATCH', `/workflows/${await made()}`, {})).status).toBe(400);
  });

  it.each([
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/publish'],
    ['POST', '/pause'],
    ['POST', '/resume'],
    ['POST', '/archive'],
    ['POST', '/unarchive'],
    ['POST', '/validate'],
    ['GET', '/versions'],
    ['GET', '/versions/1'],
  ])('%s of a workflow that does not exist (%s) is a 404, of an id that is none a 400', async (method, rest) => {
    const body = method === 'PATCH' ? { name: 'x' } : undefined;
    expect((await api(method, `/workflows/${newId()}${rest}`, body)).status).toBe(404);
    expect((await api(method, `/workflows/not-an-id${rest}`, body)).status).toBe(400);
  });

  it.each(['0', '-1', '1.5', 'abc', '99999999999'])('the version number %s is a 400', async (number) => {
    expect((await api('GET', `/workflows/${newId()}/versions/${number}`)).status).toBe(400);
  });

  it.each(['status=odd', 'archived=1', 'limit=0', 'limit=201', 'cursor=garbage', 'other=1'])('the query %s is a 400', async (query) => {
    expect((await api('GET', `/workflows?${query}`)).status).toBe(400);
  });
});
