import type { Defect } from '@onward/workflow-graph/validate-graph';
import type { DataSource } from 'typeorm';
import type { ActionCatalogue } from '../actions/action-catalogue.js';
import { rows } from '../database/sql.js';
import { type Page, type Place, instantKey, pageOf, seek } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { checkGraph } from './check-graph.js';
import { WorkflowVersion } from './workflow-version.entity.js';
import type { WorkflowStatus } from './workflow-settings.js';

/** A workflow without its graph, as lists show it. */
export type WorkflowSummary = {
  id: string;
  name: string;
  description: string;
  status: WorkflowStatus;
  archivedAt: Date | null;
  revision: number;
  /** What starts a run now, and what would once the draft is published. */
  trigger: unknown;
  draftTrigger: unknown;
  version: { id: string; number: number; publishedBy: string; publishedAt: string } | null;
  settings: unknown;
  createdAt: Date;
  updatedAt: Date;
};

/** A workflow to be edited. `problems` hinder the draft from being published; `versionProblems` are those of what runs now. */
export type WorkflowView = WorkflowSummary & { graph: unknown; problems: Defect[]; warnings: Defect[]; versionProblems: Defect[] };

export type WorkflowFilter = { status?: WorkflowStatus | undefined; archived: boolean };

const SUMMARY = `
  w.id, w.name, w.description, w.status, w.archived_at AS "archivedAt", w.revision, w.trigger, w.draft_trigger AS "draftTrigger", w.settings,
  w.created_at AS "createdAt", w.updated_at AS "updatedAt",
  CASE WHEN v.id IS NOT NULL THEN jsonb_build_object('id', v.id, 'number', v.number, 'publishedBy', v.published_by,
                                                     'publishedAt', ${instantKey('v.published_at')}) END AS version`;
const FROM = 'FROM workflows w LEFT JOIN workflow_versions v ON v.id = w.version_id';

/** Reads one workflow with what is wrong with it. A defective graph, placed in the database by hand or by an older version, is shown as it is. */
export async function readWorkflow(source: DataSource, catalogue: ActionCatalogue, id: string): Promise<WorkflowView> {
  const [row] = await rows<WorkflowSummary & { graph: unknown; versionGraph: unknown }>(
    source,
    `SELECT ${SUMMARY}, w.draft AS graph, v.graph AS "versionGraph" ${FROM} WHERE w.id = $1`,
    [id],
  );
  if (!row) throw new Problem('not_found', 'There is no such workflow');
  const { versionGraph, ...workflow } = row;
  const { defects, warnings } = checkGraph(catalogue, workflow.graph, 'publish');
  const versionProblems = workflow.version === null ? [] : checkGraph(catalogue, versionGraph, 'publish').defects;
  return { ...workflow, problems: defects, warnings, versionProblems };
}

/** Lists workflows, the newest first. */
export async function listWorkflows(source: DataSource, { status, archived }: WorkflowFilter, page: Page) {
  const { where, parameters, ending } = seek(page, { key: 'w.created_at', id: 'w.id', kind: 'instant' }, 2);
  const found = await rows<WorkflowSummary & { key: string }>(
    source,
    `SELECT ${SUMMARY}, ${instantKey('w.created_at')} AS key ${FROM}
      WHERE (w.archived_at IS NOT NULL) = $1::boolean AND ($2::text IS NULL OR w.status = $2) AND ${where} ${ending}`,
    [archived, status ?? null, ...parameters],
  );
  return pageOf(
    found,
    page.limit,
    ({ key, id }): Place => [key, id],
    ({ key: _, ...workflow }) => workflow,
  );
}

export type VersionSummary = { id: string; number: number; publishedBy: string; publishedAt: Date };

/** Lists the versions of a workflow, the newest first. */
export async function listVersions(source: DataSource, workflowId: string, page: Page) {
  const { where, parameters, ending } = seek(page, { key: 'published_at', id: 'id', kind: 'instant' }, 1);
  const found = await rows<VersionSummary & { key: string }>(
    source,
    `SELECT id, number, published_by AS "publishedBy", published_at AS "publishedAt", ${instantKey('published_at')} AS key
       FROM workflow_versions WHERE workflow_id = $1 AND ${where} ${ending}`,
    [workflowId, ...parameters],
  );
  if (found.length === 0) await checkExists(source, workflowId);
  return pageOf(
    found,
    page.limit,
    ({ key, id }): Place => [key, id],
    ({ key: _, ...version }) => version,
  );
}

export async function readVersion(source: DataSource, workflowId: string, number: number): Promise<WorkflowVersion> {
  const version = await source.manager.findOneBy(WorkflowVersion, { workflowId, number });
  if (!version) throw new Problem('not_found', 'There is no such version of a workflow');
  return version;
}

async function checkExists(source: DataSource, id: string): Promise<void> {
  const found = await rows(source, 'SELECT 1 FROM workflows WHERE id = $1', [id]);
  if (found.length === 0) throw new Problem('not_found', 'There is no such workflow');
}
