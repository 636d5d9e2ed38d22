import { createHmac } from 'node:crypto';
import { failed } from '@onward/contracts/outcome';
import type { FrozenSecret } from '../../secrets/frozen-request.js';
import { TemplateError } from '../../templates/fill.js';
import { SecretChangedError } from '../../templates/keep-secrets.js';
import type { Action, ActionResult, Step } from '../action.js';
import { buildRequest } from './build-request.js';
import { type ForwardRequestConfig, forwardRequestConfigSchema, namesSecrets } from './forward-request.config.js';
import { hideHeaders } from './hide-headers.js';
import { placeholderOf, showSecrets } from './secret-placeholders.js';

/**
 * Calls another system over HTTP. The backend builds the request and the runtime freezes it; the worker sends it. At least once is what can
 * be promised: every attempt of the step carries one Idempotency-Key and one body, so that the target can tell a repeat. Secrets stand in
 * it as placeholders (`secrets.name` is one, in these texts alone); their values are put in where the bytes leave.
 */
export function forwardRequest({ secretKey }: { secretKey: string }): Action<ForwardRequestConfig> {
  return {
    type: 'FORWARD_REQUEST',
    config: forwardRequestConfigSchema,
    needsContact: false,
    // Without a body of its own a POST tells whom the run is about.
    readsOnlyForTexts: ({ body }) => body !== undefined,
    performedBy: 'worker',
    reentry: 'Writes nothing. The request is built again from the same values under the same key; once frozen, the frozen one is sent.',
    execute: async (step) => prepare(step, secretKey),
    namesSecrets,
  };
}

function prepare({ runId, seq, config, scope }: Step<ForwardRequestConfig>, secretKey: string): ActionResult {
  const step = { secretKey, runId, seq };
  const named: FrozenSecret[] = [];
  const input = { method: config.method };
  try {
    for (const name of secretsIn(config)) named.push({ placeholder: placeholderOf(name, step), name });
    const placeholders = Object.fromEntries(named.map(({ name, placeholder }) => [name, placeholder]));
    const built = buildRequest(config, { ...scope, secrets: placeholders }, idempotencyKey(secretKey, runId, seq));
    if (!built.ok) return { kind: 'outcome', outcome: failed('request_invalid', showSecrets(built.reason, named)), input };
    const { headers, hidden } = hideHeaders(built.request.headers, named, step);
    const { url, body } = built.request;
    const texts = [url, body ?? '', ...Object.values(built.request.headers)];
    const secrets = [...named.filter(({ placeholder }) => texts.some((text) => text.includes(placeholder))), ...hidden];
    const request = { ...built.request, headers, ...(secrets.length > 0 && { secrets }) };
    return { kind: 'send', request, input: { ...input, url: showSecrets(url, named) } };
  } catch (error) {
    if (error instanceof SecretChangedError) return { kind: 'outcome', outcome: failed('request_invalid', error.message), input };
    if (!(error instanceof TemplateError)) throw error;
    return { kind: 'outcome', outcome: failed('template_error', showSecrets(error.message, named)), input };
  }
}

const known = new WeakMap<ForwardRequestConfig, ReadonlySet<string>>();

/** The names of the secrets in a configuration; that of a node of a published version never changes, and is looked through once. */
function secretsIn(config: ForwardRequestConfig): ReadonlySet<string> {
  const names = known.get(config) ?? new Set(namesSecrets(config).map(({ name }) => name));
  known.set(config, names);
  return names;
}

/** One key for all attempts of a step, another for every other step, and not to be guessed without the secret. */
export function idempotencyKey(secretKey: string, runId: string, seq: number): string {
  return createHmac('sha256', secretKey).update(`${runId}|${seq}`).digest('base64url');
}
