/**
 * The closed catalogue of errors: code → title and HTTP status.
 * HTTP answers them as RFC 9457 problem details (`type` is `urn:onward:error:<code>`), the RPC as `{ code, detail }`.
 * Nothing else is ever thrown across a boundary; an unforeseen fault is `internal`, with its detail in the log only.
 */
export const ERRORS = {
  malformed: { status: 400, title: 'The request could not be read' },
  invalid: { status: 400, title: 'The request has invalid fields' },
  unauthenticated: { status: 401, title: 'Credentials are missing or wrong' },
  forbidden: { status: 403, title: 'The key may not do this' },
  not_found: { status: 404, title: 'There is no such thing' },
  method_not_allowed: { status: 405, title: 'The method is not offered here' },
  conflict: { status: 409, title: 'The present state does not allow this' },
  too_large: { status: 413, title: 'The request is too large' },
  unsupported_media_type: { status: 415, title: 'The body is of a kind that is not accepted here' },
  unprocessable: { status: 422, title: 'The request is well formed but cannot be carried out' },
  unknown_pattern: { status: 404, title: 'There is no such call' },
  draining: { status: 503, title: 'The backend is closing; send the call again' },
  busy: { status: 503, title: 'Too much is waiting already; send the request again later' },
  unavailable: { status: 503, title: 'The database cannot be reached' },
  internal: { status: 500, title: 'An unforeseen fault; the log has its detail' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** True for a code of the catalogue. */
export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERRORS, code);
}

/**
 * Why a step failed: code → is it worth another attempt.
 * Retryable ones are tried up to three times with backoff, the others end the step at once.
 */
export const FAILURES = {
  network: { retryable: true, title: 'The target could not be reached' },
  timeout: { retryable: true, title: 'The target did not answer in time' },
  http_retryable: { retryable: true, title: 'The target asked to be tried again (5xx, 408, 425, 429)' },
  response_cut: { retryable: true, title: 'The answer broke off before its end' },
  smtp_retryable: { retryable: true, title: 'The mail server refused for now (4xx)' },
  http_permanent: { retryable: false, title: 'The target refused the request (4xx)' },
  redirect_refused: { retryable: false, title: 'The target answered with a redirect, which is not followed' },
  address_not_allowed: { retryable: false, title: 'The address is not allowed' },
  request_invalid: { retryable: false, title: 'The request cannot be sent as it is written' },
  response_too_large: { retryable: false, title: 'The answer is larger than allowed' },
  smtp_permanent: { retryable: false, title: 'The mail server refused for good (5xx)' },
  address_invalid: { retryable: false, title: 'The mail address cannot be used' },
  template_error: { retryable: false, title: 'The template could not be filled' },
  config_invalid: { retryable: false, title: 'The configuration of the node is not valid' },
  value_invalid: { retryable: false, title: 'A value known only at run time is not valid' },
  contact_missing: { retryable: false, title: 'The step needs a contact and the run has none' },
  contact_deleted: { retryable: false, title: 'The contact no longer exists' },
  template_missing: { retryable: false, title: 'The template no longer exists' },
  list_missing: { retryable: false, title: 'The list no longer exists' },
  context_missing: { retryable: false, title: 'Something the run was started with no longer exists' },
  unknown_node: { retryable: false, title: 'The node is of a type this version does not know' },
  unknown_action: { retryable: false, title: 'The action is not known to this version' },
  no_edge: { retryable: false, title: 'The node has no edge to go on by' },
  secret_missing: { retryable: false, title: 'A secret that the request names does not exist' },
  secret_not_allowed: { retryable: false, title: 'A secret may not go to this target' },
  step_cap: { retryable: false, title: 'The run took more steps than allowed' },
  poison_step: { retryable: false, title: 'The step brought its worker down again and again' },
  process_died: { retryable: true, title: 'The process died between sending and recording' },
  mail_uncertain: { retryable: false, title: 'The message may or may not have been delivered' },
} as const satisfies Record<string, { retryable: boolean; title: string }>;

export type FailureCode = keyof typeof FAILURES;
