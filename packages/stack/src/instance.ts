/**
 * What is running in this checkout and where, for processes that are started on their own.
 *
 * Whoever starts the stack writes `.onward/instance.json`; `backend:dev`, `automation-worker:dev` and `mail-gateway:dev`
 * take from it whatever their environment does not say, so three terminals work without any. The file holds the
 * database's password and is readable by its owner only. It is removed at a clean stop; after a crash it is outdated.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

export type Instance = {
  /** Settings by the names of the environment variables that the processes read. */
  readonly settings: Readonly<Record<string, string>>;
  readonly inboxUrl: string | undefined;
  readonly webhookSinkUrl: string | undefined;
  readonly startedAt: string;
  readonly pid: number;
};

/** The folder of the checkout this file belongs to. */
export const CHECKOUT = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');

/** Where the stack keeps everything of this checkout. */
export const HOME_FOLDER = `${CHECKOUT}/.onward`;

export type Ports = { readonly http: number; readonly rpc: number };

/** The settings that tie the processes together. The backend leaves its first API key in `firstKeyFile`. */
export function describeSettings(where: {
  readonly databaseUrl: string;
  readonly valkeyUrl: string;
  readonly smtpUrl: string;
  readonly mailFrom: string;
  readonly publicUrl: string;
  readonly ports: Ports;
  readonly egressAllow: string;
  readonly firstKeyFile: string;
}): Record<string, string> {
  return {
    DATABASE_URL: where.databaseUrl,
    VALKEY_URL: where.valkeyUrl,
    SMTP_URL: where.smtpUrl,
    MAIL_FROM: where.mailFrom,
    PUBLIC_URL: where.publicUrl,
    PORT: String(where.ports.http),
    BACKEND_MICROSERVICE_PORT: String(where.ports.rpc),
    BACKEND_MICROSERVICE_TARGET_HOST: '127.0.0.1',
    BACKEND_MICROSERVICE_TARGET_PORT: String(where.ports.rpc),
    EGRESS_ALLOW: where.egressAllow,
    ONWARD_FIRST_KEY_FILE: where.firstKeyFile,
  };
}

export function writeInstance(file: string, instance: Omit<Instance, 'startedAt' | 'pid'>): void {
  mkdirSync(dirname(file), { recursive: true });
  const whole: Instance = { ...instance, startedAt: new Date().toISOString(), pid: process.pid };
  const draft = `${file}.${process.pid}.tmp`;
  writeFileSync(draft, `${JSON.stringify(whole, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

/** What the file says, or undefined when there is none. */
export function readInstance(file: string): Instance | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Instance;
  } catch {
    return undefined;
  }
}

export function removeInstance(file: string): void {
  rmSync(file, { force: true });
}
