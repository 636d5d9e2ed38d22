import type { ZodType } from 'zod';
import type { Defect } from './defect.js';
import { flattenIssues } from './flatten-issues.js';
import { isKnownNodeType, KNOWN_TRIGGER_TYPES, NODE_CONFIGS } from './graph.js';
import type { ReadNode } from './read-graph.js';

/**
 * What each node is configured to do: its own config, and for an action what the catalogue of actions asks of `with`.
 * The catalogue's schemas must be synchronous.
 */
export type ActionRules = { config: ZodType; needsContact?: boolean };
export type ActionCatalogue = Record<string, ActionRules>;

export function checkConfig(node: ReadNode, actions: ActionCatalogue): Defect[] {
  const { id, type, config } = node;
  if (!isKnownNodeType(type)) return [{ code: 'unknown_node_type', message: `Node "${id}" is of the unknown type "${type}"`, node: id, path: 'type' }];
  if (type === 'trigger' && typeof config.type === 'string' && !KNOWN_TRIGGER_TYPES.some((known) => known === config.type)) {
    return [{ code: 'unknown_trigger_type', message: `"${config.type.slice(0, 100)}" is not a kind of trigger`, node: id, path: 'config.type' }];
  }
  const own = checkAgainst(NODE_CONFIGS[type], config, id, ['config']);
  return type === 'action' ? [...own, ...checkAction(node, actions)] : own;
}

function checkAction({ id, config }: ReadNode, actions: ActionCatalogue): Defect[] {
  const { action } = config;
  if (typeof action !== 'string' || action === '') return [];
  const rules = actionRules(actions, action);
  if (rules === undefined) {
    return [{ code: 'unknown_action', message: `Node "${id}": there is no action "${action.slice(0, 100)}"`, node: id, path: 'config.action' }];
  }
  // When `with` is no object at all, the node's own config has said so.
  return typeof config.with === 'object' && config.with !== null && !Array.isArray(config.with)
    ? checkAgainst(rules.config, config.with, id, ['config', 'with'])
    : [];
}

function checkAgainst(schema: ZodType, value: unknown, node: string, prefix: string[]): Defect[] {
  const parsed = schema.safeParse(value);
  if (parsed.success) return [];
  return flattenIssues(parsed.error.issues, prefix).map(({ path, message, code }) => {
    const field = path.join('.');
    return { code: code ?? 'config_invalid', message: `Node "${node}": ${field}: ${message}`, node, path: field };
  });
}

/** An event may name no contact; an action that needs one then fails for good. */
export function warnOfMissingContact(nodes: readonly ReadNode[], actions: ActionCatalogue): Defect[] {
  if (!nodes.some(({ type, config }) => type === 'trigger' && config.type === 'event')) return [];
  return nodes.flatMap(({ id, type, config }): Defect[] => {
    if (type !== 'action' || typeof config.action !== 'string' || !actionRules(actions, config.action)?.needsContact) return [];
    return [{ code: 'needs_contact', message: `Node "${id}" needs a contact; it fails for an event that names none`, node: id }];
  });
}

function actionRules(actions: ActionCatalogue, action: string): ActionRules | undefined {
  return Object.hasOwn(actions, action) ? actions[action] : undefined;
}
