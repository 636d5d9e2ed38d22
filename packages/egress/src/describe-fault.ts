/**
 * An error of undici, of the socket or of the guard → a code of ours and a sentence for people.
 * Judged by the error's `code` and by how far the exchange had come, never by its text; the text of an error is not shown either, since it can
 * quote what the other side sent.
 */
import type { SendErrorCode } from './send-result.js';
import { AddressRefusedError } from './guarded-pool.js';

export type Progress = { readonly host: string; readonly isSent: boolean; readonly hasHead: boolean };

const SENTENCES: Readonly<Record<string, string>> = {
  ENOTFOUND: 'The name cannot be resolved',
  EAI_AGAIN: 'The name cannot be resolved at the moment',
  ECONNREFUSED: 'The connection was refused',
  EHOSTUNREACH: 'There is no route to the host',
  ENETUNREACH: 'There is no route to the network',
  ECONNRESET: 'The connection was reset',
  EPIPE: 'The connection was closed by the other side',
  UND_ERR_SOCKET: 'The connection was closed by the other side',
  CERT_HAS_EXPIRED: 'The certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'The certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'The certificate chain has a self-signed certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'The certificate cannot be verified',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate is for another name',
  EPROTO: 'The TLS handshake failed',
};

/** The code and the sentence of a fault. */
export function describeFault(error: unknown, progress: Progress): { code: SendErrorCode; message: string } {
  if (error instanceof AddressRefusedError) return { code: 'address_not_allowed', message: error.message };
  const code = codeOf(error);
  const shown = `${progress.host} (${code})`;
  switch (code) {
    case 'UND_ERR_INVALID_ARG':
    case 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH':
      return { code: 'request_invalid', message: `The request to ${shown} cannot be sent as it is written` };
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
    case 'ETIMEDOUT':
      return { code: 'timeout', message: `No answer in time: ${shown}` };
    case 'UND_ERR_HEADERS_OVERFLOW':
      return { code: 'response_too_large', message: `The answer's headers are too large: ${shown}` };
    case 'UND_ERR_CLOSED':
    case 'UND_ERR_DESTROYED':
      return { code: 'aborted', message: 'Outbound requests are being stopped' };
    default:
      if (progress.hasHead) return { code: 'response_cut', message: `The answer broke off before its end: ${shown}` };
      if (code.startsWith('HPE_')) return { code: 'network', message: `The answer is not HTTP: ${shown}` };
      return { code: 'network', message: `${SENTENCES[code] ?? (progress.isSent ? 'The exchange failed' : 'The connection failed')}: ${shown}` };
  }
}

function codeOf(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string') return error.code;
  return 'unknown';
}
