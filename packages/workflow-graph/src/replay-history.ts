import type { CompiledGraph } from './compile-graph.js';
import { evaluateSeen, type Seen } from './condition.js';
import { conditionConfigSchema } from './graph.js';

/**
 * Leads a recorded history through its graph again and says whether the rules held, and where the run must stand.
 *
 * Held is: seq runs 1…n without gap or repeat; the first entry is the trigger; every other one is where the port of the entry before
 * it leads; each is of the type the graph gives it; a condition took the port that the values it recorded decide (when it
 * recorded them). Only an entry reopened by a replay (`replayOf`) may stand anywhere. Outcomes of actions are not judged.
 */

/** One step, once: `port` is the one it was left by, null while it stands open, failed or ended. `replayOf` is the seq it was replayed from. */
export type HistoryEntry = { seq: number; node: string; type: string; port: string | null; seen?: readonly Seen[]; replayOf?: number };

export type Replayed =
  /** `at` and `seq`: the step the run stands on; null and 0 before the first. A run whose last port leads nowhere stands where it left. */
  | { ok: true; at: string | null; seq: number }
  /** The first entry that breaks a rule, by the place it should have (1 and up), and which. */
  | { ok: false; seq: number; reason: string };

export function replayHistory(compiled: CompiledGraph, entries: readonly HistoryEntry[]): Replayed {
  let before: HistoryEntry | undefined;
  for (const [i, entry] of entries.entries()) {
    const reason = breach(compiled, entry, before, i + 1);
    if (reason !== null) return { ok: false, seq: i + 1, reason };
    before = entry;
  }
  if (before === undefined) return { ok: true, at: null, seq: 0 };
  const next = before.port === null ? undefined : compiled.edgeFrom(before.node, before.port);
  return next === undefined ? { ok: true, at: before.node, seq: before.seq } : { ok: true, at: next, seq: before.seq + 1 };
}

function breach(compiled: CompiledGraph, entry: HistoryEntry, before: HistoryEntry | undefined, seq: number): string | null {
  if (entry.seq !== seq) return `seq ${entry.seq} stands where ${seq} should`;
  const node = compiled.node(entry.node);
  if (node === undefined) return `there is no node "${entry.node}"`;
  if (node.type !== entry.type) return `node "${entry.node}" is of the type "${node.type}", not "${entry.type}"`;
  return breachOfPlace(compiled, entry, before) ?? breachOfPort(compiled, entry);
}

function breachOfPlace(compiled: CompiledGraph, entry: HistoryEntry, before: HistoryEntry | undefined): string | null {
  if (entry.replayOf !== undefined)
    return entry.replayOf >= 1 && entry.replayOf < entry.seq ? null : `it replays seq ${entry.replayOf}, which is not before it`;
  if (before === undefined) return entry.node === compiled.trigger ? null : `it begins at "${entry.node}", which is not the trigger`;
  if (before.port === null) return `it goes on after "${before.node}", which was not left`;
  const due = compiled.edgeFrom(before.node, before.port);
  if (due === undefined) return `it goes on after "${before.node}", whose port "${before.port}" leads nowhere`;
  return due === entry.node ? null : `port "${before.port}" of "${before.node}" leads to "${due}", not to "${entry.node}"`;
}

function breachOfPort(compiled: CompiledGraph, { node, type, port, seen }: HistoryEntry): string | null {
  if (type !== 'condition' || port === null || seen === undefined) return null;
  const config = conditionConfigSchema.safeParse(compiled.node(node)?.config);
  if (!config.success) return `condition "${node}" was passed although its configuration is not valid`;
  const result = evaluateSeen(config.data, seen);
  if (result === null) return `condition "${node}" recorded other fields than it tests`;
  return String(result) === port ? null : `condition "${node}" saw values that decide for "${result}", not to "${port}"`;
}
