import { isCredentialName } from '@onward/contracts/credential-names';
import type { FrozenSecret } from '../../secrets/frozen-request.js';
import { sealValue } from '../../secrets/seal-value.js';
import { placeholderOf } from './secret-placeholders.js';

/** Names that hold such a word anywhere, beside those that are the name of a credential. */
const SENSITIVE = /^(?:authorization|proxy-authorization|cookie)$|token|secret|password|api[-_]?key/i;

/** What may stand beside a placeholder in clear: the scheme of credentials (RFC 9110 §11.4), names of cookies, and what parts them. */
const HARMLESS = /^\s*(?:basic|bearer|token|digest|apikey|key|oauth)\b|[^\s=;,]+=|[\s;,]/gi;

/**
 * Puts the values of headers that carry credentials behind placeholders of their own when they were not written as secrets, and seals them, so that
 * they stand nowhere in clear. They are for the request's own origin alone.
 */
export function hideHeaders(
  headers: Record<string, string>,
  named: readonly FrozenSecret[],
  step: { secretKey: string; runId: string; seq: number },
): { headers: Record<string, string>; hidden: FrozenSecret[] } {
  const hidden: FrozenSecret[] = [];
  const shown = Object.entries(headers).map(([header, value]) => {
    const written = named.reduce((rest, { placeholder }) => rest.replaceAll(placeholder, ' '), value);
    const isSensitive = isCredentialName(header) || SENSITIVE.test(header);
    if (!isSensitive || (written !== value && written.replace(HARMLESS, '') === '') || value === '') return [header, value];
    const name = `header ${header}`;
    const placeholder = placeholderOf(name, step);
    hidden.push({ placeholder, name, sealed: sealValue(value, placeholder, step.secretKey).toString('base64') });
    return [header, placeholder];
  });
  return { headers: Object.fromEntries(shown) as Record<string, string>, hidden };
}
