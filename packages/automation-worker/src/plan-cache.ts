import type { Plan, PlanNode } from '@onward/contracts/plan';

const MAX_PLANS = 500;
/** A node that the plan does not name: the backend passes such nodes itself. */
const UNNAMED: PlanNode = { type: 'unknown', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' };

/** The plans of the versions used last. A version is immutable, so a plan once learnt holds for ever. */
export class PlanCache {
  private readonly plans = new Map<string, Plan>();
  private readonly versions = new WeakMap<PlanNode, string>();
  private readonly asked = new Map<string, Promise<void>>();

  /** Makes the plan known, asking for it only when it is not; callers that come meanwhile share the answer. */
  async learn(versionId: string, ask: () => Promise<Plan | undefined>): Promise<void> {
    const known = this.plans.get(versionId);
    if (known) {
      this.plans.delete(versionId);
      this.plans.set(versionId, known);
      return;
    }
    const asking =
      this.asked.get(versionId) ??
      ask()
        .then((plan) => this.keep(versionId, plan ?? { versionId, nodes: {} }))
        .finally(() => this.asked.delete(versionId));
    this.asked.set(versionId, asking);
    await asking;
  }

  node(versionId: string, node: string): PlanNode {
    const nodes = this.plans.get(versionId)?.nodes;
    const found = nodes && Object.hasOwn(nodes, node) ? nodes[node] : undefined;
    const copy = { ...(found ?? UNNAMED) };
    this.versions.set(copy, versionId);
    return copy;
  }

  /** The version a node of `node()` belongs to. */
  versionOf(node: PlanNode): string {
    return this.versions.get(node) ?? '';
  }

  private keep(versionId: string, plan: Plan): void {
    this.plans.set(versionId, plan);
    const [oldest] = this.plans.keys();
    if (this.plans.size > MAX_PLANS && oldest !== undefined) this.plans.delete(oldest);
  }
}
