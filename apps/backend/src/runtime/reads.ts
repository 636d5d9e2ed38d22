import DataLoader from 'dataloader';
import type { Json } from '@onward/contracts/json';
import { selectList } from '../database/columns.js';
import { prepared, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import type { Attempt } from '../runs/attempt.entity.js';
import { ATTEMPT_COLUMNS } from '../runs/run-columns.js';
import type { FrozenRequest } from '../secrets/frozen-request.js';
import { findTargets } from '../targets/find-targets.js';
import type { Version, VersionReader } from '../workflows/read-version.js';
import { readContacts } from './read-contacts.js';
import { readContexts } from './read-contexts.js';

type StepKey = { runId: string; seq: number };

export const ATTEMPTS = `
  SELECT one.* FROM unnest($1::uuid[], $2::integer[]) AS step (run_id, seq)
  CROSS JOIN LATERAL (SELECT ${selectList(ATTEMPT_COLUMNS)} FROM attempts WHERE run_id = step.run_id AND seq = step.seq ORDER BY n) AS one`;
const FROZEN = `
  SELECT one.* FROM unnest($1::uuid[], $2::integer[]) AS step (run_id, seq)
  CROSS JOIN LATERAL (SELECT run_id AS "runId", seq, request FROM outbound_requests WHERE run_id = step.run_id AND seq = step.seq LIMIT 1) AS one`;
const CONTACTS = 'SELECT id AS key, true AS value FROM contacts WHERE id = ANY($1::uuid[])';
const PROBES = 'SELECT probe_run_id AS key, true AS value FROM targets WHERE probe_run_id = ANY($1::uuid[])';
const OUTPUTS = `
  SELECT run_id AS key, jsonb_object_agg(node, output) AS value
  FROM (SELECT DISTINCT ON (run_id, node) run_id, node, output FROM attempts
        WHERE run_id = ANY($1::uuid[]) AND status = 'done' AND output IS NOT NULL ORDER BY run_id, node, seq DESC) latest
  GROUP BY run_id`;

/**
 * What handlers read besides their run. Each asks for itself and one thing at a time; what is asked in the same turn, by however many runs
 * share the transaction, is read in one statement (DataLoader). Nothing is remembered from one turn to the next: an answer is what the
 * transaction sees now. What is not there is null. Reads travel together; an action that writes for many has the connection for itself meanwhile.
 */
export class Reads {
  /** What is being done by somebody who has the connection for himself. */
  private alone: Promise<unknown> = Promise.resolve();
  private readonly wanted = new Map<string, Promise<boolean>>();
  private readonly versionsRead = new Map<string, Promise<Version>>();

  constructor(private readonly tx: Tx) {}

  /** The attempts of a step, in order of n. */
  readonly attempts = this.ofSteps(async (runIds, seqs) => {
    const found = groupBy(await prepared<Attempt>(this.tx, ATTEMPTS, [runIds, seqs]), ({ runId, seq }) => `${runId}/${seq}`);
    return (key) => found.get(key) ?? [];
  });

  /** The request that a step has frozen. */
  readonly frozen = this.ofSteps(async (runIds, seqs) => {
    const found = await prepared<StepKey & { request: FrozenRequest }>(this.tx, FROZEN, [runIds, seqs]);
    const requests = new Map(found.map(({ runId, seq, request }) => [`${runId}/${seq}`, request]));
    return (key) => requests.get(key) ?? null;
  });

  /** What a run was started with. */
  readonly context = this.byKey((runIds) => readContexts(this.tx, runIds));
  /** The output of the latest visit to each node of a run. */
  readonly outputs = this.byKey((runIds) => this.pairs<{ [node: string]: Json }>(OUTPUTS, runIds));
  readonly contact = this.byKey((ids) => readContacts(this.tx, ids));
  readonly hasContact = this.byKey((ids) => this.pairs<true>(CONTACTS, ids));
  /** By origin. */
  readonly target = this.byKey((origins) => findTargets(this.tx, origins));
  /** Is the run the one that tries out a target? */
  readonly isProbe = this.byKey((runIds) => this.pairs<true>(PROBES, runIds));

  /** A published version, which most often needs no statement; otherwise one for all who ask. */
  async version(versions: VersionReader, versionId: string): Promise<Version> {
    const known = versions.peek(versionId);
    if (known) return known;
    const read = this.versionsRead.get(versionId) ?? this.after(() => versions.get(this.tx, versionId));
    this.versionsRead.set(versionId, read);
    return read;
  }

  /** Is there anything that an event of this type could start or wake? Asked once a transaction. */
  wants(bus: EventBus, type: string): Promise<boolean> {
    const asked = this.wanted.get(type) ?? this.after(() => bus.listening.wants(this.tx, type));
    this.wanted.set(type, asked);
    return asked;
  }

  /**
   * Runs what takes several statements: behind those that were given before, and with nobody else's in between, for a savepoint of it would take theirs
   * along.
   */
  inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.after(work);
    this.alone = result.catch(() => undefined);
    return result;
  }

  private after<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.alone.then(work);
  }

  private byKey<Value>(read: (keys: string[]) => Promise<Map<string, Value>>): (key: string) => Promise<Value | null> {
    const loader = new DataLoader<string, Value | null>(
      async (keys) => {
        const found = await this.after(() => read([...new Set(keys)]));
        return keys.map((key) => found.get(key) ?? null);
      },
      { cache: false },
    );
    return (key) => loader.load(key);
  }

  private ofSteps<Value>(read: (runIds: string[], seqs: number[]) => Promise<(key: string) => Value>): (runId: string, seq: number) => Promise<Value> {
    const loader = new DataLoader<StepKey, Value>(
      async (steps) => {
        const find = await this.after(() =>
          read(
            steps.map(({ runId }) => runId),
            steps.map(({ seq }) => seq),
          ),
        );
        return steps.map(({ runId, seq }) => find(`${runId}/${seq}`));
      },
      { cache: false },
    );
    return (runId, seq) => loader.load({ runId, seq });
  }

  private async pairs<Value>(statement: string, keys: string[]): Promise<Map<string, Value>> {
    return new Map((await prepared<{ key: string; value: Value }>(this.tx, statement, [keys])).map(({ key, value }) => [key, value]));
  }
}

function groupBy<Row>(rows: readonly Row[], keyOf: (row: Row) => string): Map<string, Row[]> {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group) group.push(row);
    else groups.set(keyOf(row), [row]);
  }
  return groups;
}
