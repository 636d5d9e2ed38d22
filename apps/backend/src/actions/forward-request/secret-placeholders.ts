import { createHmac } from 'node:crypto';
import { SECRET_NAME } from '../../secrets/secret-input.js';
import { parseTemplate } from '../../templates/parse-template.js';

/** A text of a configuration with the way to it. */
type Text = { path: string[]; text: string };

/** Every text in a part of a configuration, in order. Names of fields are none. */
export function textsIn(part: unknown, path: string[] = []): Text[] {
  if (typeof part === 'string') return [{ path, text: part }];
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([name, member]) => textsIn(member, [...path, name]));
}

/**
 * The secrets a text names. A secret is named plainly (`secrets.name`): what a value of the run could choose, or a whole list of them, is answered
 * as `unclear`. Throws TemplateError for a text that is not readable Liquid.
 */
export function secretsNamedIn(text: string): { names: string[]; isUnclear: boolean } {
  const named = parseTemplate(text).paths.filter(([root]) => root === 'secrets');
  const names = named.flatMap(([, name, ...more]) => (name !== undefined && SECRET_NAME.test(name) && more.length === 0 ? [name] : []));
  return { names: [...new Set(names)], isUnclear: names.length < named.length };
}

/**
 * What stands in a request in the place of a value until its bytes leave: letters and digits, which every encoding leaves as they are, another for
 * each step, and not to be guessed without the key, so that no value of a contact or an event can be one.
 */
export function placeholderOf(name: string, { secretKey, runId, seq }: { secretKey: string; runId: string; seq: number }): string {
  return `onws${createHmac('sha256', secretKey).update(`placeholder|${runId}|${seq}|${name}`).digest('hex').slice(0, 40)}`;
}

/** The text as people see it: with the names of secrets where their placeholders stand. */
export function showSecrets(text: string, secrets: readonly { placeholder: string; name: string }[]): string {
  return secrets.reduce((shown, { placeholder, name }) => shown.replaceAll(placeholder, () => `[secret ${name}]`), text);
}
