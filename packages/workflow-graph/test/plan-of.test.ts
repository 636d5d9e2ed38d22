import { planSchema } from '@onward/contracts/plan';
import { describe, expect, test } from 'vitest';
import { compileGraph } from '../src/compile-graph.js';
import { planOf } from '../src/plan-of.js';
import { action, edges, end, trigger, wait } from './graphs.js';

const VERSION = '01890a5d-ac96-774b-bcce-b302099a8057';
const plan = (graph: unknown) => planOf(VERSION, compileGraph(graph), (name) => name === 'FORWARD_REQUEST');

describe('planOf', () => {
  test('says of every node who performs it and how its outcomes are judged', () => {
    const call = action('call', { action: 'FORWARD_REQUEST', with: {}, uncertain: 'stop' });
    const answer = plan({
      nodes: [trigger, call, action('tag'), wait('w', '2h'), end],
      edges: edges('trigger -> call', 'call -> tag', 'call.failed -> end', 'tag -> w', 'w -> end'),
    });
    expect(answer).toEqual({
      versionId: VERSION,
      nodes: {
        trigger: { type: 'trigger', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' },
        call: { type: 'action', action: 'FORWARD_REQUEST', performedBy: 'worker', hasFailedPort: true, uncertainPolicy: 'stop' },
        tag: { type: 'action', action: 'ADD_TAG', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' },
        w: { type: 'wait', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' },
        end: { type: 'end', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' },
      },
    });
    expect(planSchema.parse(answer)).toEqual(answer);
  });

  test('a failed edge that leads to no node is no failed port', () => {
    expect(plan({ nodes: [action('a')], edges: edges('a.failed -> ghost') }).nodes.a?.hasFailedPort).toBe(false);
  });

  test('a defective graph gives a plan of what can be read', () => {
    expect(plan(null)).toEqual({ versionId: VERSION, nodes: {} });
    expect(
      Object.keys(
        plan({
          nodes: [
            { id: '__proto__', type: 'end' },
            { id: 'a', type: 'action', config: { action: 7 } },
          ],
        }).nodes,
      ),
    ).toEqual(['__proto__', 'a']);
  });
});
