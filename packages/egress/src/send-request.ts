/**
 * The one way out: sends a request and answers with data.
 * Order: headers and size are checked, then the target, then it is dialled with the guard on every address, then redirects (when asked for) go through the
 * same gate hop by hop. One deadline holds over everything. Nothing is ever sent twice by this file, not even on a connection that turned out
 * to be stale: whether to try again is the caller's decision, and `mayHaveBeenSent` is what it needs to know.
 * Secrets stand in the request as placeholders; for every hop anew their values are put in right before it is dialled, and only if they may go to
 * its origin (fill-secrets.ts). A redirect that carries a value itself to where it may not go is not followed either.
 * Not promised: masking of secrets in what comes back; mask-secrets.ts is for that.
 */
import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Agent } from 'undici';
import type { AllowList } from './allow-list.js';
import { checkHeaders } from './check-headers.js';
import { checkTarget } from './check-target.js';
import { decodeBody } from './decode-body.js';
import { type Answer, exchange, type ExchangeLimits, type Hop, Stop } from './exchange.js';
import { fillSecrets } from './fill-secrets.js';
import { openGuardedPool } from './guarded-pool.js';
import { createMask } from './mask-secrets.js';
import { isRedirect, nextHop } from './next-hop.js';
import { onAbort } from './on-abort.js';
import { METHODS, type SendError, type SendErrorCode, type SendOptions, type SendRequest, type SendResult } from './send-result.js';

export type { SecretValue } from './secret-value.js';
export type { Method, SendError, SendErrorCode, SendOptions, SendRequest, SendResponse, SendResult } from './send-result.js';

export const MAX_REDIRECTS = 5;
const DEFAULT_CONNECT_TIMEOUT_MS = 10_000;
const DEFAULT_MAX_REQUEST_BYTES = 1024 * 1024;
/** A value shorter than this may stand in any address by chance. */
const MIN_CARRIED = 4;
/** setTimeout takes no more (2^31 − 1 ms, 24 days). */
const MAX_TIMEOUT_MS = 2_147_483_647;

/** Agents by what their guard goes by: the lookup function and the allow-list's text. In a process there is one of each. */
const agents = new Map<LookupFunction, Map<string, Agent>>();

/** Sends the request. Never rejects. */
export async function sendRequest(request: SendRequest, options: SendOptions): Promise<SendResult> {
  const stop = new Stop();
  const timer = setTimeout(
    () => stop.now({ code: 'timeout', message: `No complete answer within ${request.timeoutMs} ms` }),
    Math.min(request.timeoutMs, MAX_TIMEOUT_MS),
  );
  const { signals = [] } = options;
  const onAborted = () => stop.now({ code: 'aborted', message: 'The request was stopped' });
  const unlisten = signals.map((signal) => onAbort(signal, onAborted));
  if (signals.some(({ aborted }) => aborted)) onAborted();
  try {
    return await send(request, options, stop);
  } catch (error) {
    return refuse('network', `Unforeseen fault (${error instanceof Error ? error.name : typeof error})`, true);
  } finally {
    clearTimeout(timer);
    for (const end of unlisten) end();
  }
}

/** Closes every connection. Requests under way end as `aborted`. A later `sendRequest` starts afresh. */
export async function closeEgress(): Promise<void> {
  const open = [...agents.values()].flatMap((byText) => [...byText.values()]);
  agents.clear();
  await Promise.all(open.map((agent) => agent.destroy()));
}

async function send(request: SendRequest, options: SendOptions, stop: Stop): Promise<SendResult> {
  if (!METHODS.includes(request.method)) return refuse('request_invalid', 'The method is not one of those that can be sent', false);
  const checked = checkHeaders(request.headers);
  if (!checked.ok) return refuse('request_invalid', checked.message, false);
  const body = request.body === null || request.body === '' ? null : Buffer.from(request.body, 'utf8');
  const maxRequestBytes = request.maxRequestBytes ?? DEFAULT_MAX_REQUEST_BYTES;
  if (body !== null && body.length > maxRequestBytes) return refuse('request_invalid', `The body is larger than ${maxRequestBytes} bytes`, false);
  const target = checkTarget(request.url, options.allow);
  if (target.kind === 'refused') return refuse(target.code, target.message, false);

  const agent = agentFor(options.lookup ?? systemLookup, options.allow);
  const limits: ExchangeLimits = {
    connectTimeoutMs: Math.min(request.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS, MAX_TIMEOUT_MS),
    headersTimeoutMs: request.headersTimeoutMs === undefined ? null : Math.min(request.headersTimeoutMs, MAX_TIMEOUT_MS),
    maxResponseBytes: request.maxResponseBytes,
  };
  let hop: Hop = { method: request.method, url: target.url, headers: checked.headers, body };
  const secrets = options.secrets ?? [];
  let cause: SendError['head'] = null;
  for (let followed = 0; ; followed++) {
    const filled = fillSecrets(hop, secrets);
    if (filled.kind === 'refused') return refuse(filled.code, followed === 0 ? filled.message : `Redirect: ${filled.message}`, followed > 0, cause);
    if ((filled.hop.body?.length ?? 0) > maxRequestBytes)
      return refuse('request_invalid', `The body is larger than ${maxRequestBytes} bytes`, followed > 0, cause);
    const answer = await exchange(agent, filled.hop, limits, stop);
    if (answer.kind === 'error') return followed === 0 ? answer : { ...answer, mayHaveBeenSent: true };
    const location = answer.rawHeaders.find(([name]) => name === 'location')?.[1];
    if (!request.followRedirects || location === undefined || !isRedirect(answer.status)) return finish(answer, request, null);
    if (followed === MAX_REDIRECTS) return finish(answer, request, `there were ${MAX_REDIRECTS} redirects before it`);
    const next = nextHop(hop, answer.status, location);
    if (next.kind === 'refused') return finish(answer, request, next.why);
    const { url } = next.hop;
    const checkedNext = checkTarget(url.href, options.allow);
    if (checkedNext.kind === 'refused') return refuse(checkedNext.code, `Redirect: ${checkedNext.message}`, true, answer);
    const carried = createMask(secrets.filter(({ value, origins }) => value.length >= MIN_CARRIED && !origins.includes(url.origin))).find(url.href);
    if (carried !== null) return refuse('secret_not_allowed', `Redirect: The secret "${carried}" may not go to ${url.origin}`, true, answer);
    hop = next.hop;
    cause = answer;
  }
}

async function finish(answer: Answer, request: SendRequest, redirectRefused: string | null): Promise<SendResult> {
  const headers = joinHeaders(answer.rawHeaders);
  const decoded = await decodeBody(answer.wire, headers['content-encoding'], request.maxResponseBytes);
  switch (decoded.kind) {
    case 'too_large':
      return refuse('response_too_large', `The answer is larger than ${request.maxResponseBytes} bytes once decoded`, true, answer);
    case 'cut':
      return refuse('response_cut', 'The compressed answer broke off before its end', true, answer);
    case 'body':
      return {
        kind: 'response',
        status: answer.status,
        headers,
        rawHeaders: answer.rawHeaders,
        body: decoded.body,
        undecoded: decoded.undecoded,
        wireBytes: answer.wire.length,
        bytesSent: true,
        redirectRefused,
      };
  }
}

function refuse(code: SendErrorCode, message: string, mayHaveBeenSent: boolean, head: SendError['head'] = null): SendError {
  return { kind: 'error', code, message, mayHaveBeenSent, head: head && { status: head.status, rawHeaders: head.rawHeaders } };
}

function joinHeaders(rawHeaders: Answer['rawHeaders']): Record<string, string> {
  // Without a prototype any name is only a name.
  const joined: Record<string, string> = Object.create(null);
  for (const [name, value] of rawHeaders) {
    const before = joined[name];
    joined[name] = before === undefined ? value : `${before}, ${value}`;
  }
  return joined;
}

function agentFor(lookup: LookupFunction, allow: AllowList): Agent {
  const byText = agents.get(lookup) ?? new Map<string, Agent>();
  agents.set(lookup, byText);
  const known = byText.get(allow.text);
  if (known !== undefined) return known;
  const agent = new Agent({ factory: (origin) => openGuardedPool(String(origin), { allow, lookup }) });
  byText.set(allow.text, agent);
  return agent;
}
