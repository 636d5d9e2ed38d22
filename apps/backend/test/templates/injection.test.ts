import { describe, expect, it } from 'vitest';
import type { Scope } from '../../src/runtime/scope.js';
import { fill, TemplateError } from '../../src/templates/fill.js';

/** Attributes as an attacker would send them: through JSON, so that `__proto__` is an own key. */
const attributes = JSON.parse('{"name":"Ann","toString":"x","valueOf":"v","__proto__":{"polluted":"1"},"list":[1,2],"o":{"a":1}}') as { [key: string]: string };
const scope: Scope = { contact: { email: 'ann@example.test', attributes }, event: { payload: {} }, context: {}, steps: {}, run: {}, workflow: {} };

/** Each reaches for what templates must not reach. All render empty, or are refused; none may render anything else. */
const EMPTY_OR_REFUSED = [
  '{{contact.attributes.constructor.name}}',
  '{{contact.constructor}}',
  '{{contact.constructor.constructor}}',
  '{{contact.attributes.constructor.constructor("return process")()}}',
  '{{constructor}}',
  '{{constructor.constructor}}',
  '{{__proto__}}',
  '{{__proto__.polluted}}',
  '{{contact.__proto__}}',
  '{{contact.__proto__.polluted}}',
  '{{contact["__proto__"]["constructor"]}}',
  '{{contact["constr" | append: "uctor"]}}',
  '{{contact.hasOwnProperty}}',
  '{{contact.attributes.hasOwnProperty}}',
  '{{contact.attributes.isPrototypeOf}}',
  '{{contact.attributes.__defineGetter__}}',
  '{{contact.attributes.__lookupGetter__}}',
  '{{contact.attributes.list.constructor}}',
  '{{contact.attributes.list.push}}',
  '{{contact.attributes.list.__proto__.length}}',
  '{{contact.email.constructor}}',
  '{{contact.email.length.constructor}}',
  '{{contact.email.sub.apply}}',
  '{{"".constructor.constructor}}',
  '{{ "a".__proto__ }}',
  '{{process}}',
  '{{process.env}}',
  '{{process.env.DATABASE_URL}}',
  '{{global}}',
  '{{globalThis.process}}',
  '{{require}}',
  '{{require("child_process")}}',
  '{{this}}',
  '{{self}}',
  '{{env}}',
  '{{settings}}',
  '{{config.secretKey}}',
  '{{forloop}}',
  '{{forloop.constructor}}',
  '{% for a in contact.attributes.list %}{{ forloop.constructor }}{{ forloop.next }}{% endfor %}',
  '{% assign x = contact.constructor %}{{ x }}',
  '{% assign __proto__ = contact.attributes %}{{ polluted }}{{ __proto__.constructor }}',
  '{% assign constructor = "x" %}{{ contact.constructor }}',
  '{{ contact | map: "constructor" | compact }}',
  '{{ contact.attributes.list | map: "constructor" | compact }}',
  '{{ contact.attributes.list | where: "constructor" | size | minus: 2 | at_least: 0 | remove: "0" }}',
  '{{ contact.attributes.list | group_by_exp: "x", "x.constructor" }}',
  '{{ contact.attributes.list | find_exp: "x", "x.constructor" }}',
  '{% render "/etc/passwd" %}',
  '{% include "/etc/passwd" %}',
  '{% include "../../package.json" %}',
  '{% layout "/etc/passwd" %}',
  '{% liquid echo process %}',
  '{% echo process %}',
  '{{ "x" | raw }}',
  '{{ "x" | inspect }}',
  '{{ contact.attributes\u002econstructor.name }}',
  '{{ contact["\\u0063onstructor"] }}',
  '{{ Symbol.unscopables }}',
  '{{ Reflect.ownKeys }}',
  '{{ Object.getPrototypeOf }}',
  '{{ contact.attributes.then }}',
  '{{ contact.toLiquid }}',
  '{{ contact.liquidMethodMissing }}',
];

/** Languages of other engines: text to us, and literal. */
const LITERAL = [
  '${7*7}',
  '#{7*7}',
  '<%= 7*7 %>',
  '[[7*7]]',
  '*{7*7}',
  '@(7*7)',
  '${{7*7}',
  '{php}echo 1;{/php}',
  "=cmd|' /C calc'!A0",
  '$(id)',
  '`id`',
  '{{`',
].filter((payload) => !payload.includes('{{'));

describe('template injection', () => {
  it('the table holds at least 60 payloads', () => {
    expect(EMPTY_OR_REFUSED.length + LITERAL.length).toBeGreaterThanOrEqual(60);
  });

  it.each(EMPTY_OR_REFUSED)('%s reaches nothing', (payload) => {
    expect(filledOrRefused(payload).trim()).toBe('');
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it.each(LITERAL)('%s is literal text', (payload) => {
    expect(fill(payload, scope, 'text')).toBe(payload);
  });

  it.each([
    '{{ contact.email }}',
    '{% assign x = 1 %}',
    '{{ process.env }}',
    '<script>alert(1)</script>',
    '"; DROP TABLE runs; --',
    '{{ contact.attributes.constructor.name }}',
  ])('the value %s is never read as a template', (value) => {
    expect(fill('{{ contact.attributes.v }}', { ...scope, contact: { attributes: { v: value } } }, 'text')).toBe(value);
  });

  it.each(['text', 'html', 'header', 'url', 'json'] as const)('F06: an own attribute of a name that objects inherit is read as what it is, in %s', (kind) => {
    const template = kind === 'json' ? '"{{ contact.attributes.toString }}"' : '{{ contact.attributes.toString }}';
    expect(fill(template, scope, kind)).toBe(kind === 'json' ? '"x"' : 'x');
  });

  it('F06: contact.attributes.constructor.name renders empty and nothing is polluted afterwards', () => {
    expect(fill('[{{contact.attributes.constructor.name}}]', scope, 'text')).toBe('[]');
    expect(fill('{% if contact.attributes.polluted %}yes{% else %}no{% endif %}', { ...scope, contact: { attributes: {} } }, 'text')).toBe('no');
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

function filledOrRefused(payload: string): string {
  try {
    return fill(payload, scope, 'text');
  } catch (error) {
    expect(error).toBeInstanceOf(TemplateError);
    return '';
  }
}
