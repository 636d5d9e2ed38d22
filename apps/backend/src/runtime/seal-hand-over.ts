import type { Outcome } from '@onward/contracts/outcome';
import { sealSecrets } from '@onward/wire/sealed-secrets';
import type { FrozenRequest } from '../secrets/frozen-request.js';
import { openSecrets } from '../secrets/open-secrets.js';
import type { Settings } from '../settings.js';
import type { Checkpoint } from './checkpoint.js';

/** `secrets` is missing when the request has none. */
export type Sealed = { kind: 'sealed'; secrets?: string[] };

/**
 * The values of a frozen request's secrets as they travel to the worker: sealed for the holder of the wire's secret and for this step alone.
 * A secret that is gone or may not go there any more is the outcome instead, and nothing is handed over.
 */
export async function sealHandOver(
  checkpoint: Pick<Checkpoint, 'tx'>,
  { url, secrets = [] }: FrozenRequest,
  { runId, seq }: { runId: string; seq: number },
  { secretKey, rpcSecrets }: Pick<Settings, 'secretKey' | 'rpcSecrets'>,
): Promise<Sealed | Extract<Outcome, { kind: 'failed' }>> {
  if (secrets.length === 0) return { kind: 'sealed' };
  const opened = await openSecrets(checkpoint.tx, secrets, { origin: new URL(url).origin, secretKey });
  if (opened.kind === 'failed') return opened;
  return { kind: 'sealed', secrets: sealSecrets(opened.values, { secrets: rpcSecrets, step: `${runId}|${seq}` }) };
}
