import { Injectable } from '@nestjs/common';
import type { Plan, PlanNode } from '@onward/contracts/plan';
import { type CompiledGraph, compileGraph } from '@onward/workflow-graph/compile-graph';
import type { Graph } from '@onward/workflow-graph/graph';
import { planOf } from '@onward/workflow-graph/plan-of';
import type { DataSource } from 'typeorm';
import { ActionCatalogue } from '../actions/action-catalogue.js';
import { rows, type Tx } from '../database/sql.js';
import { isFilled } from '../templates/fill.js';
import { type WorkflowSettings, workflowSettingsSchema } from './workflow-settings.js';

/** A published version as runs are led through it. Never changed, shared by all who read it. */
export type Version = {
  versionId: string;
  workflowId: string;
  number: number;
  /** As it is stored; it may have defects that somebody wrote into the database, which `compiled` tolerates. */
  graph: Graph;
  compiled: CompiledGraph;
  settings: WorkflowSettings;
  plan: Plan;
  /** What must be known of a node to judge its outcomes; of one that is not there, that nothing is drawn. */
  planNode(node: string): PlanNode;
  /** Does a text or a condition of the node look at what steps gave? A name that is written anywhere else in it counts too. */
  readsOutputs(node: string): boolean;
  /** Is there a text in the node's configuration that is to be filled? */
  fillsTexts(node: string): boolean;
  /** Does any node that only chooses the way look at what steps gave? */
  waysReadOutputs: boolean;
};

const MAX_CACHED = 1_000;
const MISSING_NODE: PlanNode = { type: 'unknown', performedBy: 'backend', hasFailedPort: false, uncertainPolicy: 'resend' };

/**
 * Reads published versions, each once: a version is immutable, so what was read holds for ever. Keeps the 1,000 used last.
 * Throws for a version that does not exist: versions go only with their workflow, which its runs hold, so that is a fault.
 */
@Injectable()
export class VersionReader {
  /** In the order of use, the latest at the end. */
  private readonly cached = new Map<string, Version>();

  constructor(private readonly catalogue: ActionCatalogue) {}

  async get(tx: Tx | DataSource, versionId: string): Promise<Version> {
    const known = this.peek(versionId);
    if (known) return known;
    const version = await this.read(tx, versionId);
    this.cached.set(versionId, version);
    if (this.cached.size > MAX_CACHED) {
      const oldest = this.cached.keys().next();
      if (!oldest.done) this.cached.delete(oldest.value);
    }
    return version;
  }

  /** What `get` would answer without reading: undefined for a version that was not read yet, or long ago. */
  peek(versionId: string): Version | undefined {
    const version = this.cached.get(versionId);
    if (version === undefined) return undefined;
    this.cached.delete(versionId);
    this.cached.set(versionId, version);
    return version;
  }

  private async read(tx: Tx | DataSource, versionId: string): Promise<Version> {
    const [row] = await rows<{ workflowId: string; number: number; graph: Graph; settings: unknown }>(
      tx,
      'SELECT workflow_id AS "workflowId", number, graph, settings FROM workflow_versions WHERE id = $1',
      [versionId],
    );
    if (!row) throw new Error(`There is no workflow version ${versionId}`);
    const compiled = compileGraph(row.graph);
    const settings = workflowSettingsSchema.safeParse(row.settings);
    const plan = planOf(versionId, compiled, (action) => this.catalogue.get(action)?.performedBy === 'worker');
    const fillers = new Set(compiled.nodes.filter(({ config }) => isFilled(JSON.stringify(config))).map(({ id }) => id));
    const readers = new Set(compiled.nodes.filter(({ config }) => JSON.stringify(config).includes('steps')).map(({ id }) => id));
    return {
      versionId,
      workflowId: row.workflowId,
      number: row.number,
      graph: row.graph,
      compiled,
      settings: settings.success ? settings.data : workflowSettingsSchema.parse({}),
      plan,
      planNode: (node) => (Object.hasOwn(plan.nodes, node) ? plan.nodes[node] : undefined) ?? MISSING_NODE,
      readsOutputs: (node) => readers.has(node),
      fillsTexts: (node) => fillers.has(node),
      waysReadOutputs: compiled.nodes.some(({ id, type }) => readers.has(id) && type !== 'action' && type !== 'wait'),
    };
  }
}
