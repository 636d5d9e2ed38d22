import { createHmac } from 'node:crypto';
import { failed } from '@onward/contracts/outcome';
import { TemplateError } from '../../templates/fill.js';
import type { Action, ActionResult, Step } from '../action.js';
import { buildRequest } from './build-request.js';
import { type ForwardRequestConfig, forwardRequestConfigSchema } from './forward-request.config.js';

/**
 * Calls another system over HTTP. The backend builds the request and the runtime freezes it; the worker sends it. At least once is what can
 * be promised: every attempt of the step carries one Idempotency-Key and one body, so that the target can tell a repeat.
 */
export function forwardRequest({ secretKey }: { secretKey: string }): Action<ForwardRequestConfig> {
  return {
    type: 'FORWARD_REQUEST',
    config: forwardRequestConfigSchema,
    needsContact: false,
    performedBy: 'worker',
    reentry: 'Writes nothing. The request is built again from the same values under the same key; once frozen, the frozen one is sent.',
    execute: async (step) => prepare(step, secretKey),
  };
}

function prepare({ runId, seq, config, scope }: Step<ForwardRequestConfig>, secretKey: string): ActionResult {
  try {
    const built = buildRequest(config, scope, idempotencyKey(secretKey, runId, seq));
    if (!built.ok) return { kind: 'outcome', outcome: failed('request_invalid', built.reason), input: { method: config.method } };
    const { request } = built;
    return { kind: 'send', request, input: { method: request.method, url: request.url } };
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return { kind: 'outcome', outcome: failed('template_error', error.message), input: { method: config.method } };
  }
}

/** One key for all attempts of a step, another for every other step, and not to be guessed without the secret. */
export function idempotencyKey(secretKey: string, runId: string, seq: number): string {
  return createHmac('sha256', secretKey).update(`${runId}|${seq}`).digest('base64url');
}
