import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals a value for the database: AES-256-GCM (NIST SP 800-38D) under a key derived by HKDF-SHA256 (RFC 5869) from ONWARD_SECRET_KEY. `boundTo` says
 * what it belongs to, so that bytes put in another row do not open there. Answers IV, tag and text, one after the other.
 */
export function sealValue(value: string, boundTo: string, secretKey: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', keyOf(secretKey), iv).setAAD(Buffer.from(boundTo));
  const sealed = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]);
}

/** The value, or null when the bytes were changed, belong elsewhere, or were sealed under another ONWARD_SECRET_KEY. */
export function openValue(sealed: Buffer, boundTo: string, secretKey: string): string | null {
  if (sealed.length < IV_BYTES + TAG_BYTES) return null;
  try {
    const cipher = createDecipheriv('aes-256-gcm', keyOf(secretKey), sealed.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(boundTo))
      .setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    return Buffer.concat([cipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), cipher.final()]).toString('utf8');
  } catch {
    return null;
  }
}

function keyOf(secretKey: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secretKey, '', 'onward: values of secrets in the database', 32));
}
