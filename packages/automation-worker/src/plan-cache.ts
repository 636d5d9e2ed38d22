import type { Plan, PlanNode } from '@onward/contracts/plan';

const MAX_PLANS = 500;
/** A node that the plan does not name: the backend passes such nodes itself. */
const UNNAMED: PlanNode = { type: 'unknown', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' };

/** The plans of the versions used last. A version is immutable, so a plan once learnt holds for ever. */
export class PlanCache {
  /** In the order of use, the latest at the end. */
  private readonly plans = new Map<string, Plan>();

  has(versionId: string): boolean {
    return this.plans.has(versionId);
  }

  keep(plan: Plan): void {
    this.plans.set(plan.versionId, plan);
    const [oldest] = this.plans.keys();
    if (this.plans.size > MAX_PLANS && oldest !== undefined) this.plans.delete(oldest);
  }

  node(versionId: string, node: string): PlanNode {
    const plan = this.plans.get(versionId);
    if (!plan) return UNNAMED;
    this.plans.delete(versionId);
    this.plans.set(versionId, plan);
    return (Object.hasOwn(plan.nodes, node) ? plan.nodes[node] : undefined) ?? UNNAMED;
  }
}
