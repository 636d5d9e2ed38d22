/**
 * The values of a request's secrets on their way from the backend to the worker that sends it. The connection between them is signed and not
 * secret (signing.ts), so what travels there is sealed: AES-256-GCM (NIST SP 800-38D) under a key derived by HKDF-SHA256 (RFC 5869) from the
 * secret both sides share. It is bound to the step it was made for, so that it opens for no other.
 *
 * Not promised: that what was recorded of the connection stays shut once the shared secret is known.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { type SecretValue, secretValuesSchema } from '@onward/contracts/outbound';

const IV_BYTES = 12;
const TAG_BYTES = 16;

/** The values once for each of the shared secrets that a worker may hold, base64url of IV, tag and text. `step` is `<runId>|<seq>`. */
export function sealSecrets(values: readonly SecretValue[], { secrets, step }: { secrets: readonly string[]; step: string }): string[] {
  const text = JSON.stringify(values);
  return secrets.map((secret) => {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv('aes-256-gcm', keyOf(secret), iv).setAAD(Buffer.from(step));
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url');
  });
}

/** What the first of them that opens under the secret holds, nothing when there are none; null when none opens: another secret, another step, or bytes that were changed. */
export function openSecrets(sealed: readonly string[], { secret, step }: { secret: string; step: string }): SecretValue[] | null {
  if (sealed.length === 0) return [];
  for (const one of sealed) {
    const values = open(Buffer.from(one, 'base64url'), secret, step);
    if (values !== null) return values;
  }
  return null;
}

function open(bytes: Buffer, secret: string, step: string): SecretValue[] | null {
  if (bytes.length < IV_BYTES + TAG_BYTES) return null;
  try {
    const cipher = createDecipheriv('aes-256-gcm', keyOf(secret), bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(step))
      .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    const text = Buffer.concat([cipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), cipher.final()]).toString('utf8');
    return secretValuesSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

function keyOf(secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', 'onward: secrets of a request, backend to worker', 32));
}
