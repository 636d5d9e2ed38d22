import { randomUUID } from 'node:crypto';
import type { Plan, PlanNode } from '@onward/contracts/plan';
import { expect, test } from 'vitest';
import { PlanCache } from '../src/plan-cache.js';

const SENT: PlanNode = { type: 'action', action: 'FORWARD_REQUEST', performedBy: 'worker', hasFailedPort: true, uncertainPolicy: 'stop' };
const UNNAMED: PlanNode = { type: 'unknown', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' };

const aPlan = (nodes: Plan['nodes'] = {}): Plan => ({ versionId: randomUUID(), nodes });

test('a plan that was kept is known, with its nodes', () => {
  const plans = new PlanCache();
  const plan = aPlan({ a: SENT });
  expect(plans.has(plan.versionId)).toBe(false);
  plans.keep(plan);
  expect(plans.has(plan.versionId)).toBe(true);
  expect(plans.node(plan.versionId, 'a')).toEqual(SENT);
});

test.each(['b', 'constructor', '__proto__', 'toString'])('a node %s that the plan does not name is one that the backend passes itself', (name) => {
  const plans = new PlanCache();
  const plan = aPlan({ a: SENT });
  plans.keep(plan);
  expect(plans.node(plan.versionId, name)).toEqual(UNNAMED);
  expect(plans.node(randomUUID(), 'a')).toEqual(UNNAMED);
});

test('five hundred plans are kept, and the one not used for longest goes first', () => {
  const plans = new PlanCache();
  const all = Array.from({ length: 500 }, () => aPlan({ a: SENT }));
  for (const plan of all) plans.keep(plan);
  expect(all.every(({ versionId }) => plans.has(versionId))).toBe(true);
  plans.node(all[0]?.versionId ?? '', 'a');
  plans.keep(aPlan());
  expect(all.filter(({ versionId }) => !plans.has(versionId))).toEqual([all[1]]);
});
