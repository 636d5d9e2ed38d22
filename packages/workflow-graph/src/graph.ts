import { eventTypeSchema } from '@onward/contracts/event-type';
import type { Json } from '@onward/contracts/json';
import { uncertainPolicySchema } from '@onward/contracts/plan';
import { z } from 'zod';
import { parseDuration } from './duration.js';
import { isZone, parseAt, parseTimeOfDay } from './local-time.js';

/**
 * The shape of a journey: nodes, edges and the configuration of each type of node.
 *
 * `graphSchema` is what a draft must satisfy to be saved at all; it looks into no `config`. The config schemas are what publishing
 * demands (validate-graph.ts asks them). A stored graph may be older or edited by hand: read it with compile-graph.ts, which
 * takes anything. Depth and size of the JSON are not limited here but in validate-graph.ts.
 */

export const MAX_NODES = 1_000;
export const MAX_EDGES = 4_000;
export const MAX_TESTS = 50;

/**
 * Every type of node this version knows: the ports it may have, those that must be drawn, how a run meets it, and whether it pauses
 * the run, so that a loop through it is no busy loop. A run passes what is `passed` within one checkpoint, stops on what is
 * `performed` and is over at what `ends`.
 */
export const NODE_TYPES = {
  trigger: { ports: ['next'], requiredPorts: ['next'], meets: 'passed', pauses: false },
  action: { ports: ['next', 'failed'], requiredPorts: ['next'], meets: 'performed', pauses: false },
  wait: { ports: ['next'], requiredPorts: ['next'], meets: 'performed', pauses: true },
  condition: { ports: ['true', 'false'], requiredPorts: ['true', 'false'], meets: 'passed', pauses: false },
  end: { ports: [], requiredPorts: [], meets: 'ends', pauses: false },
} as const satisfies Record<string, NodeTypeRules>;

type NodeTypeRules = { ports: readonly string[]; requiredPorts: readonly string[]; meets: 'passed' | 'performed' | 'ends'; pauses: boolean };
export type KnownNodeType = keyof typeof NODE_TYPES;
/** The types a run stops on to act or to wait. */
export type PerformedNodeType = { [Type in KnownNodeType]: (typeof NODE_TYPES)[Type]['meets'] extends 'performed' ? Type : never }[KnownNodeType];
export const KNOWN_NODE_TYPES = Object.keys(NODE_TYPES) as KnownNodeType[];

/** True for a type of node this version knows. */
export function isKnownNodeType(type: string): type is KnownNodeType {
  return Object.hasOwn(NODE_TYPES, type);
}

/** The ports a node of this type may have, or null for an unknown type: any. */
export function portsOf(type: string): readonly string[] | null {
  return isKnownNodeType(type) ? NODE_TYPES[type].ports : null;
}

/** JSON that came through JSON.parse: its values are not looked at again. */
const parsedJson = z.unknown() as z.ZodType<Json>;
const jsonObject = z.record(z.string(), parsedJson);

export const nodeIdSchema = z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'must be a slug: a small letter, then up to 63 of a-z, 0-9 and _');

export const nodeSchema = z.strictObject({
  id: nodeIdSchema,
  type: z.string().min(1).max(100),
  name: z.string().max(200).optional(),
  position: z.strictObject({ x: z.number(), y: z.number() }).optional(),
  config: jsonObject.default({}),
});
export type Node = z.infer<typeof nodeSchema>;

export const edgeSchema = z.strictObject({
  id: z.string().min(1).max(255).optional(),
  from: nodeIdSchema,
  port: z.string().min(1).max(64).default('next'),
  to: nodeIdSchema,
});
export type Edge = z.infer<typeof edgeSchema>;

export const graphSchema = z.strictObject({ nodes: z.array(nodeSchema).max(MAX_NODES), edges: z.array(edgeSchema).max(MAX_EDGES) });
export type Graph = z.infer<typeof graphSchema>;

/** A refused field with a code of its own: the code travels in `params`, where validate-graph.ts finds it. */
function refuse(ctx: z.RefinementCtx, code: string, message: string, path: string[] = []): void {
  ctx.addIssue({ code: 'custom', message, path, params: { code } });
}

/** A text that is filled at run time and can be judged only then. */
export function isTemplate(text: string): boolean {
  return text.includes('{{');
}

export const OPERATORS = ['equals', 'not_equals', 'contains', 'not_contains', 'exists', 'not_exists'] as const;
export type Operator = (typeof OPERATORS)[number];

/**
 * A dot path: names or list indices parted by single dots (`contact.attributes.plan`, `event.items.0.sku`). A name holds no dot, brace,
 * bracket or control character and neither begins nor ends with a blank.
 */
const FIELD_PATH = /^(?!\s)[^.{}[\]\p{Cc}]+(?<!\s)(?:\.(?!\s)[^.{}[\]\p{Cc}]+(?<!\s))*$/u;

export const conditionTestSchema = z
  .strictObject({
    field: z
      .string()
      .max(300)
      .superRefine((field, ctx) => {
        if (!FIELD_PATH.test(field)) refuse(ctx, 'field_path_invalid', 'must be a dot path such as contact.attributes.plan');
      }),
    op: z.enum(OPERATORS),
    value: parsedJson.optional(),
    ignoreCase: z.boolean().optional(),
  })
  .superRefine(({ op, value }, ctx) => {
    if (op === 'exists' || op === 'not_exists') return;
    if (value === undefined || value === null) return refuse(ctx, 'operand_empty', `${op} needs a value to compare with`, ['value']);
    if (op === 'equals' || op === 'not_equals') return;
    if (value === '') return refuse(ctx, 'operand_empty', `${op} needs a value that is not empty`, ['value']);
    if (typeof value === 'object') refuse(ctx, 'config_invalid', `${op} takes a text, a number or a truth value`, ['value']);
  });
export type ConditionTest = z.infer<typeof conditionTestSchema>;

export const conditionConfigSchema = z.strictObject({
  match: z.enum(['all', 'any']).optional(),
  tests: z.array(conditionTestSchema).min(1).max(MAX_TESTS),
});
export type ConditionConfig = z.infer<typeof conditionConfigSchema>;

export const KNOWN_TRIGGER_TYPES = ['manual', 'event'] as const;

export const triggerConfigSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('manual') }),
  z.strictObject({
    type: z.literal('event'),
    event: eventTypeSchema,
    filter: conditionConfigSchema.optional(),
  }),
]);
export type TriggerConfig = z.infer<typeof triggerConfigSchema>;

export const actionConfigSchema = z.strictObject({
  action: z.string().min(1).max(100),
  /** What the action itself asks for; the catalogue of actions holds its schema. */
  with: jsonObject,
  uncertain: uncertainPolicySchema.optional(),
});
export type ActionConfig = z.infer<typeof actionConfigSchema>;

const zoneSchema = z.string().superRefine((zone, ctx) => {
  if (!isZone(zone)) refuse(ctx, 'zone_unknown', `${JSON.stringify(zone)} is not a time zone of the IANA database`);
});

/** A duration as it is written: text, or a number of ms. Judged now unless it is a template. */
const durationSchema = z.unknown().superRefine((duration, ctx) => {
  if (typeof duration === 'string' && isTemplate(duration)) return;
  const parsed = parseDuration(duration);
  if (!parsed.ok) refuse(ctx, 'wait_invalid', parsed.reason);
}) as z.ZodType<string | number>;

const untilSchema = z
  .strictObject({ kind: z.literal('until'), at: z.string().max(1_000).optional(), timeOfDay: z.string().max(20).optional(), zone: zoneSchema.optional() })
  .superRefine(({ at, timeOfDay, zone }, ctx) => {
    if (at !== undefined && timeOfDay !== undefined) return refuse(ctx, 'wait_invalid', 'cannot be given together with timeOfDay', ['at']);
    if (at !== undefined) {
      if (isTemplate(at)) return;
      const parsed = parseAt(at, 'UTC');
      return parsed.ok ? undefined : refuse(ctx, 'wait_invalid', parsed.reason, ['at']);
    }
    if (timeOfDay === undefined) return refuse(ctx, 'wait_invalid', 'an instant (at) or a time of day (timeOfDay) must be given', ['at']);
    if (parseTimeOfDay(timeOfDay) === null) refuse(ctx, 'wait_invalid', `${JSON.stringify(timeOfDay)} is not a time of day from 00:00 to 23:59`, ['timeOfDay']);
    if (zone === undefined) refuse(ctx, 'wait_invalid', 'a time of day needs its time zone', ['zone']);
  });

export type WaitConfig =
  | { kind: 'duration'; duration: string | number }
  | { kind: 'until'; at: string; zone?: string }
  | { kind: 'until'; timeOfDay: string; zone: string };

export const waitConfigSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('duration'), duration: durationSchema }),
  untilSchema,
]) as unknown as z.ZodType<WaitConfig>;

export const endConfigSchema = z.strictObject({});

/** The config schema of each known type of node. */
export const NODE_CONFIGS = {
  trigger: triggerConfigSchema,
  action: actionConfigSchema,
  wait: waitConfigSchema,
  condition: conditionConfigSchema,
  end: endConfigSchema,
} as const satisfies Record<KnownNodeType, z.ZodType>;
