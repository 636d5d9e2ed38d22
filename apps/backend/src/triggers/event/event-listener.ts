import type { Json } from '@onward/contracts/json';
import { evaluateCondition } from '@onward/workflow-graph/condition';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { Logger } from 'pino';
import { databaseFault } from '../../database/database-fault.js';
import { attempt, prepared, type Tx } from '../../database/sql.js';
import { type Dispatch, type EmittedEvent, EventBus, type EventListener, type Listeners } from '../../events/event-bus.js';
import { LOGGER } from '../../operations/logger.js';
import type { RunContext } from '../../runs/run-context.entity.js';
import { type PlannedRun, recording, recordRefusals, type Refusal, type Started, startRuns } from '../../runs/start-runs.js';
import { type ReadContact, readContacts } from '../../runtime/read-contacts.js';
import { type Version, VersionReader } from '../../workflows/read-version.js';
import { type TriggerConfig, triggerConfigSchema } from '../../workflows/workflow-settings.js';

/** Journeys may set each other off through Onward's own events this many times in a row. */
export const MAX_EVENT_DEPTH = 10;

/** An active workflow; `trigger` is what its row says, or why that cannot be read. */
type Listening = { id: string; versionId: string; trigger: TriggerConfig | { fault: unknown } };
type Match = { event: EmittedEvent; workflow: Listening; contact: ReadContact | null };
/** What is to be written for one event and one workflow. */
type Decision = { planned: PlannedRun } | { refusal: Refusal };

/**
 * The one listener on the bus: for each event, and each active workflow that waits for its type and whose filter it meets, a pending run or a
 * recorded refusal, in the emitter's transaction and in a number of statements that does not grow with the events. Each workflow is matched on
 * its own, so a broken one is refused and the rest start.
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
      (await prepared(tx, `SELECT 1 FROM workflows WHERE status = 'active' AND trigger ->> 'type' = 'event' AND trigger ->> 'event' = $1 LIMIT 1`, [type]))
        .length > 0
    );
  }

  async listenersOf(tx: Tx, types: readonly string[]): Promise<Listeners> {
    const found = await prepared<{ id: string; versionId: string; trigger: unknown; type: string }>(
      tx,
      `SELECT id, version_id AS "versionId", trigger, trigger ->> 'event' AS type FROM workflows
       WHERE status = 'active' AND trigger ->> 'type' = 'event' AND trigger ->> 'event' = ANY ($1::text[]) ORDER BY id`,
      [types],
    );
    const byType = new Map<string, Listening[]>();
    for (const { type, id, versionId, trigger } of found) {
      const read = triggerConfigSchema.safeParse(trigger);
      byType.set(type, [...(byType.get(type) ?? []), { id, versionId, trigger: read.success ? read.data : { fault: read.error } }]);
    }
    return {
      want: (type) => byType.has(type),
      dispatch: (events) =>
        this.dispatch(tx, events, byType, async (planned, refusals) => {
          await recordRefusals(tx, refusals);
          return this.start(tx, planned);
        }),
      commit: (events, storing) =>
        this.dispatch(tx, events, byType, (planned, refusals) =>
          startRuns(tx, planned, { commitBehind: [storing, ...(refusals.length > 0 ? [recording(refusals)] : [])] }),
        ),
    };
  }

  private async dispatch(
    tx: Tx,
    events: readonly EmittedEvent[],
    byType: ReadonlyMap<string, Listening[]>,
    write: (planned: readonly PlannedRun[], refusals: readonly Refusal[]) => Promise<Started[]>,
  ): Promise<Dispatch[][]> {
    const heard = events.filter(({ type }) => byType.has(type));
    const contactOf = await findContacts(tx, heard, [...byType.values()].flat());
    const met = heard.flatMap((event) => {
      const contact = contactOf(event);
      return (byType.get(event.type) ?? []).flatMap((workflow) => this.meet({ event, workflow, contact }));
    });
    const versions = await this.readVersions(
      tx,
      met.flatMap((one) => ('refusal' in one ? [] : [one.workflow.versionId])),
    );
    const decided = met.map((one) => ('refusal' in one ? one : this.decide(one, versions)));
    const refusals = decided.flatMap((one) => ('refusal' in one ? [one.refusal] : []));
    const started = await write(
      decided.flatMap((one) => ('planned' in one ? [one.planned] : [])),
      refusals,
    );
    const dispatched = new Map<string | null, Dispatch[]>(events.map(({ id }) => [id, []]));
    for (const { workflowId, eventId, reason } of refusals) dispatched.get(eventId)?.push({ workflowId, refused: reason });
    for (const one of started) {
      const { workflowId, eventId } = one.planned;
      dispatched.get(eventId)?.push('runId' in one ? { workflowId, runId: one.runId } : { workflowId, refused: one.refused });
    }
    return events.map(({ id }) => (dispatched.get(id) ?? []).sort((a, b) => (a.workflowId < b.workflowId ? -1 : 1)));
  }

  /** Nothing when the filter is not met. */
  private meet(match: Match): (Match | { refusal: Refusal })[] {
    const { event, workflow, contact } = match;
    try {
      if ('fault' in workflow.trigger) throw workflow.trigger.fault;
      const scope = { event: event.payload, contact: contact as Json, context: {}, steps: {} };
      if (workflow.trigger.type === 'event' && workflow.trigger.filter && !evaluateCondition(workflow.trigger.filter, scope).result) return [];
      if (event.depth <= MAX_EVENT_DEPTH) return [match];
      return [refuse(match, 'event_chain_too_deep', `The event was caused by ${event.depth} runs in a row`)];
    } catch (error) {
      return [this.refuseBroken(match, error)];
    }
  }

  /** Each version once, those not read before under a savepoint: one that cannot be read refuses its workflow and nobody else. */
  private async readVersions(tx: Tx, versionIds: readonly string[]): Promise<Map<string, Version | { fault: unknown }>> {
    const versions = new Map<string, Version | { fault: unknown }>();
    for (const versionId of new Set(versionIds)) {
      const cached = this.versions.peek(versionId);
      const read = cached ? ({ ok: true, value: cached } as const) : await attempt(tx, () => this.versions.get(tx, versionId));
      if (!read.ok && isPassing(read.error)) throw read.error;
      versions.set(versionId, read.ok ? read.value : { fault: read.error });
    }
    return versions;
  }

  private decide(match: Match, versions: ReadonlyMap<string, Version | { fault: unknown }>): Decision {
    const { event, workflow, contact } = match;
    const version = versions.get(workflow.versionId);
    if (!version || 'fault' in version) return this.refuseBroken(match, version?.fault);
    const node = version.compiled.trigger;
    if (node === undefined) return refuse(match, 'workflow_broken', 'The version has no trigger node');
    const { reentry } = version.settings;
    return {
      planned: {
        workflowId: workflow.id,
        versionId: workflow.versionId,
        reentry,
        node,
        contactId: event.contactId,
        eventId: event.id,
        context: contextOf(event, contact),
      },
    };
  }

  private refuseBroken(match: Match, error: unknown): { refusal: Refusal } {
    this.log.error(
      { err: error, workflowId: match.workflow.id, eventId: match.event.id },
      'a workflow could not be matched; it is refused and the others go on',
    );
    return refuse(match, 'workflow_broken', textOf(error));
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
        await recordRefusals(tx, [{ ...plan, reason: 'workflow_broken', detail: textOf(alone.error) }]);
        started.push({ planned: plan, refused: 'workflow_broken' });
      }
    }
    return started;
  }
}

/** The contact of an event as it stood then, where it was given; read where it was not, or where a filter looks at tags or lists. */
async function findContacts(tx: Tx, events: readonly EmittedEvent[], workflows: readonly Listening[]): Promise<(event: EmittedEvent) => ReadContact | null> {
  const areAllRead = workflows.some(looksAtMemberships);
  const ids = events.flatMap(({ contactId, contact }) => (contactId !== null && (areAllRead || !contact) ? [contactId] : []));
  const read = await readContacts(tx, [...new Set(ids)]);
  return ({ contactId, contact }) => {
    const found = contactId === null ? null : (read.get(contactId) ?? null);
    return contact ? { ...contact, tags: found?.tags ?? [], lists: found?.lists ?? [] } : found;
  };
}

function looksAtMemberships({ trigger }: Listening): boolean {
  if ('fault' in trigger || trigger.type !== 'event') return false;
  return trigger.filter?.tests.some(({ field }) => /^contact(?:$|\.(?:tags|lists)(?:$|\.))/.test(field)) ?? false;
}

function refuse({ event, workflow }: Match, reason: Refusal['reason'], detail: string): { refusal: Refusal } {
  return { refusal: { workflowId: workflow.id, versionId: workflow.versionId, eventId: event.id, contactId: event.contactId, reason, detail } };
}

/** A database that is busy or away says nothing of the workflow: the emitter is told so and asks again. */
function isPassing(error: unknown): boolean {
  const fault = databaseFault(error);
  return fault === 'busy' || fault === 'away';
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function contextOf(event: EmittedEvent, contact: ReadContact | null): RunContext {
  return {
    trigger: 'event',
    event: { id: event.id, type: event.type, occurredAt: event.occurredAt.toISOString(), payload: event.payload },
    contact: contact && { id: contact.id, externalId: contact.externalId, email: contact.email, attributes: contact.attributes },
    depth: event.depth,
    startedBy: `event ${event.id}`,
  };
}
