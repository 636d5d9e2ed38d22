import type { Json } from '@onward/contracts/json';
import { evaluateCondition } from '@onward/workflow-graph/condition';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { Logger } from 'pino';
import { databaseFault } from '../../database/database-fault.js';
import { attempt, rows, type Tx } from '../../database/sql.js';
import { EventBus, type Dispatch, type EmittedEvent, type EventListener } from '../../events/event-bus.js';
import { LOGGER } from '../../operations/logger.js';
import type { RunContext } from '../../runs/run-context.entity.js';
import { type PlannedRun, recordRefusals, type Refusal, type Started, startRuns } from '../../runs/start-runs.js';
import { readContact } from '../../runtime/read-scope.js';
import { VersionReader } from '../../workflows/read-version.js';
import { triggerConfigSchema } from '../../workflows/workflow-settings.js';

/** Journeys may set each other off through Onward's own events this many times in a row. */
export const MAX_EVENT_DEPTH = 10;

type ActiveWorkflow = { id: string; versionId: string; trigger: unknown };
type Matched = { planned: PlannedRun } | { refusal: Refusal } | null;

/**
 * The one listener on the bus: for each active workflow that waits for the event's type and whose filter it meets, a pending run or a
 * recorded refusal, in the emitter's transaction. Each workflow is matched on its own, so a broken one is refused and the rest start;
 * no statement made here can abort the emitter.
 */
@Injectable()
export class EventTrigger implements EventListener, OnModuleInit {
  constructor(
    private readonly bus: EventBus,
    private readonly versions: VersionReader,
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  onModuleInit(): void {
    this.bus.register(this);
  }

  async wants(tx: Tx, type: string): Promise<boolean> {
    return (
      (await rows(tx, `SELECT 1 FROM workflows WHERE status = 'active' AND trigger ->> 'type' = 'event' AND trigger ->> 'event' = $1 LIMIT 1`, [type])).length >
      0
    );
  }

  async dispatch(tx: Tx, event: EmittedEvent): Promise<Dispatch[]> {
    const workflows = await rows<ActiveWorkflow>(
      tx,
      `SELECT id, version_id AS "versionId", trigger FROM workflows
       WHERE status = 'active' AND trigger ->> 'type' = 'event' AND trigger ->> 'event' = $1 ORDER BY id`,
      [event.type],
    );
    if (workflows.length === 0) return [];
    const contact = await readContact(tx, event.contactId);
    const matched: Matched[] = [];
    for (const workflow of workflows) matched.push(await this.matchAlone(tx, workflow, event, contact));
    const refusals = matched.flatMap((one) => (one && 'refusal' in one ? [one.refusal] : []));
    await recordRefusals(tx, refusals);
    const started = await this.start(
      tx,
      matched.flatMap((one) => (one && 'planned' in one ? [one.planned] : [])),
    );
    return [
      ...started.map(
        (one): Dispatch =>
          'runId' in one ? { workflowId: one.planned.workflowId, runId: one.runId } : { workflowId: one.planned.workflowId, refused: one.refused },
      ),
      ...refusals.map(({ workflowId, reason }): Dispatch => ({ workflowId, refused: reason })),
    ].sort((a, b) => (a.workflowId < b.workflowId ? -1 : 1));
  }

  private async matchAlone(tx: Tx, workflow: ActiveWorkflow, event: EmittedEvent, contact: Awaited<ReturnType<typeof readContact>>): Promise<Matched> {
    const refuse = (reason: Refusal['reason'], detail: string): Matched => ({
      refusal: { workflowId: workflow.id, versionId: workflow.versionId, eventId: event.id, contactId: event.contactId, reason, detail },
    });
    const tried = await attempt(tx, async (): Promise<Matched> => {
      const trigger = triggerConfigSchema.parse(workflow.trigger);
      const scope = { event: event.payload, contact: contact as Json, context: {}, steps: {} };
      if (trigger.type === 'event' && trigger.filter && !evaluateCondition(trigger.filter, scope).result) return null;
      if (event.depth > MAX_EVENT_DEPTH) return refuse('event_chain_too_deep', `The event was caused by ${event.depth} runs in a row`);
      const version = await this.versions.get(tx, workflow.versionId);
      const node = version.compiled.trigger;
      if (node === undefined) return refuse('workflow_broken', 'The version has no trigger node');
      return {
        planned: {
          workflowId: workflow.id,
          versionId: workflow.versionId,
          reentry: version.settings.reentry,
          node,
          contactId: event.contactId,
          eventId: event.id,
          context: contextOf(event, contact),
        },
      };
    });
    if (tried.ok) return tried.value;
    if (isPassing(tried.error)) throw tried.error;
    this.log.error({ err: tried.error, workflowId: workflow.id, eventId: event.id }, 'a workflow could not be matched; it is refused and the others go on');
    return refuse('workflow_broken', tried.error instanceof Error ? tried.error.message : String(tried.error));
  }

  /** All in one statement; if that fails, each alone, so that the one at fault is refused and the others start. */
  private async start(tx: Tx, planned: readonly PlannedRun[]): Promise<Started[]> {
    if (planned.length === 0) return [];
    const together = await attempt(tx, () => startRuns(tx, planned));
    if (together.ok) return together.value;
    if (isPassing(together.error)) throw together.error;
    const started: Started[] = [];
    for (const plan of planned) {
      const alone = await attempt(tx, () => startRuns(tx, [plan]));
      if (alone.ok) started.push(...alone.value);
      else if (isPassing(alone.error)) throw alone.error;
      else {
        this.log.error(
          { err: alone.error, workflowId: plan.workflowId, eventId: plan.eventId },
          'a run could not be written; it is refused and the others start',
        );
        await recordRefusals(tx, [{ ...plan, reason: 'workflow_broken', detail: alone.error instanceof Error ? alone.error.message : String(alone.error) }]);
        started.push({ planned: plan, refused: 'workflow_broken' });
      }
    }
    return started;
  }
}

/** A database that is busy or away says nothing of the workflow: the emitter is told so and asks again. */
function isPassing(error: unknown): boolean {
  const fault = databaseFault(error);
  return fault === 'busy' || fault === 'away';
}

function contextOf(event: EmittedEvent, contact: Awaited<ReturnType<typeof readContact>>): RunContext {
  return {
    trigger: 'event',
    event: { id: event.id, type: event.type, occurredAt: event.occurredAt.toISOString(), payload: event.payload },
    contact: contact && { id: contact.id, externalId: contact.externalId, email: contact.email, attributes: contact.attributes },
    depth: event.depth,
    startedBy: `event ${event.id}`,
  };
}
