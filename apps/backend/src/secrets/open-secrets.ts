import type { SecretValue } from '@onward/contracts/outbound';
import { failed, type Outcome } from '@onward/contracts/outcome';
import { rows, type Tx } from '../database/sql.js';
import type { FrozenSecret } from './frozen-request.js';
import { openValue } from './seal-value.js';

type Stored = { id: string; name: string; sealed: Buffer; allowedOrigins: string[] };

/**
 * What the placeholders of a frozen request stand for now. Values of secrets are the present ones, so a value changed between two attempts is
 * used by the second. A secret that is gone, or may not go to this origin any more, is the outcome of the step.
 */
export async function openSecrets(
  tx: Tx,
  frozen: readonly FrozenSecret[],
  { origin, secretKey }: { origin: string; secretKey: string },
): Promise<{ kind: 'values'; values: SecretValue[] } | Extract<Outcome, { kind: 'failed' }>> {
  const named = frozen.filter(({ sealed }) => sealed === undefined);
  const stored = await rows<Stored>(tx, `SELECT id, name, sealed, allowed_origins AS "allowedOrigins" FROM secrets WHERE name = ANY ($1)`, [
    named.map(({ name }) => name),
  ]);
  const values: SecretValue[] = [];
  for (const { placeholder, name } of named) {
    const secret = stored.find((one) => one.name === name);
    if (!secret) return failed('secret_missing', `The secret "${name}" does not exist any more`);
    if (!secret.allowedOrigins.includes(origin)) return failed('secret_not_allowed', `The secret "${name}" may not go to ${origin}`);
    const value = openValue(secret.sealed, secret.id, secretKey);
    if (value === null) return unreadable(name);
    values.push({ placeholder, name, value, origins: secret.allowedOrigins });
  }
  // What was sealed with the request may hold placeholders of secrets itself (`Bearer {{ secrets.token }}` behind other text).
  for (const { placeholder, name, sealed } of frozen) {
    if (sealed === undefined) continue;
    const text = openValue(Buffer.from(sealed, 'base64'), placeholder, secretKey);
    if (text === null) return unreadable(name);
    const value = values.reduce((filled, one) => filled.replaceAll(one.placeholder, () => one.value), text);
    values.push({ placeholder, name, value, origins: [origin] });
  }
  return { kind: 'values', values };
}

function unreadable(name: string) {
  return failed('secret_missing', `The secret "${name}" cannot be read: it was sealed under another ONWARD_SECRET_KEY; set its value again`);
}
