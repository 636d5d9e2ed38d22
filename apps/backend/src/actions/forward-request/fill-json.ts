import type { Json } from '@onward/contracts/json';
import type { Scope } from '../../runtime/scope.js';
import { fill } from '../../templates/fill.js';

/** A JSON value with every text in it filled; names of fields and other values stay as they are. A filled text stays a text. */
export function fillJson(template: Json, scope: Scope): Json {
  if (typeof template === 'string') return fill(template, scope, 'text');
  if (Array.isArray(template)) return template.map((member) => fillJson(member, scope));
  if (template === null || typeof template !== 'object') return template;
  // fromEntries makes own properties, also of a name such as "__proto__".
  return Object.fromEntries(Object.entries(template).map(([name, member]) => [name, fillJson(member, scope)]));
}
