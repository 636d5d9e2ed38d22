/**
 * The secrets that the processes of one checkout share, made once and kept in a file only its owner may read.
 *
 * Whoever starts first makes them; two that start together get the same ones. A file that others could read is closed to
 * them; one that cannot be understood is an error, never replaced: data encrypted under the lost key would be lost with it.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** 32 random bytes each, base64url. */
export type Secrets = { readonly BACKEND_MICROSERVICE_SECRET: string; readonly ONWARD_SECRET_KEY: string };

const SECRET_BYTES = 32;

/** Reads `<folder>/secrets.json`, making it first if need be. Throws when the file is there and not what it should be. */
export function ensureSecrets(folder: string): Secrets {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'secrets.json');
  const draft = `${file}.${process.pid}.tmp`;
  const make = (): string => randomBytes(SECRET_BYTES).toString('base64url');
  const fresh: Secrets = { BACKEND_MICROSERVICE_SECRET: make(), ONWARD_SECRET_KEY: make() };
  writeFileSync(draft, `${JSON.stringify(fresh, null, 2)}\n`, { mode: 0o600 });
  try {
    linkSync(draft, file); // fails when there is one already, which then counts
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  return readSecrets(file);
}

function readSecrets(file: string): Secrets {
  const parsed = parse(file);
  const { BACKEND_MICROSERVICE_SECRET, ONWARD_SECRET_KEY } = parsed;
  if (isSecret(BACKEND_MICROSERVICE_SECRET) && isSecret(ONWARD_SECRET_KEY)) return { BACKEND_MICROSERVICE_SECRET, ONWARD_SECRET_KEY };
  throw new Error(
    `${file} does not hold BACKEND_MICROSERVICE_SECRET and ONWARD_SECRET_KEY of 32 bytes in base64url: restore it, or remove it together with the data.`,
  );
}

function parse(file: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
  } catch {
    return {};
  }
}

function isSecret(value: unknown): value is string {
  return typeof value === 'string' && /^[\w-]+$/.test(value) && Buffer.from(value, 'base64url').length === SECRET_BYTES;
}
