/**
 * The settings of the process: the only file here that reads `process.env`. Checked once, at the start; what is wrong is named by its
 * variable and never printed with its value.
 */
import { RPC_TIMEOUT_MS } from '@onward/contracts/patterns';
import { type AllowList, parseAllowList } from '@onward/egress/allow-list';
import { z } from 'zod';

const whole = (min: number, max: number) => z.coerce.number({ error: 'must be a whole number' }).int().min(min).max(max);

const settingsSchema = z.object({
  NODE_ENV: z.string().default('development'),
  VALKEY_URL: z
    .string({ error: 'is missing: it must be a URL that starts with redis:// or rediss://' })
    .regex(/^rediss?:\/\//, 'must start with redis:// or rediss://'),
  BACKEND_MICROSERVICE_TARGET_HOST: z.string().default('127.0.0.1'),
  BACKEND_MICROSERVICE_TARGET_PORT: whole(1, 65_535).default(3103),
  BACKEND_MICROSERVICE_SECRET: z
    .string({ error: 'is missing: it must be the secret the backend was started with' })
    .min(32, 'must have at least 32 characters'),
  AUTOMATIONS_BACKEND_RPC_TIMEOUT_MS: whole(1_000, 3_600_000).default(RPC_TIMEOUT_MS),
  AUTOMATIONS_LEASE_MS: whole(500, 600_000).default(30_000),
  AUTOMATIONS_WORKER_CONCURRENCY: whole(1, 10_000).default(400),
  AUTOMATIONS_BREAKER_RESET_MS: whole(100, 3_600_000).default(30_000),
  AUTOMATIONS_SILENT_QUEUE_MS: whole(1_000, 3_600_000).default(60_000),
  EGRESS_ALLOW: z.string().default(''),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  ONWARD_TEST_CLOCK: z.enum(['', '0', '1', 'true', 'false']).default(''),
  ONWARD_FAIL_POINTS: z.string().default(''),
});

export type Settings = {
  valkeyUrl: string;
  backend: { host: string; port: number; secret: string; timeoutMs: number };
  /** How long a claim lives without a renewal, in ms; the same as the backend's. */
  leaseMs: number;
  /** Runs driven at the same time. */
  concurrency: number;
  /** How long a target that failed too often is left alone before it is tried again, in ms; the same as the backend's. */
  breakerResetMs: number;
  /** The queue is taken for deaf when places are free and wake-ups wait for so long, in ms, without one being handed out. */
  silentForMs: number;
  allow: AllowList;
  logLevel: string;
  failPoints: string;
};

/** The settings. Throws an Error with a line for every variable that is missing or wrong; an empty one counts as missing. */
export function readSettings(env: NodeJS.ProcessEnv = process.env): Settings {
  const read = settingsSchema.safeParse(Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')));
  if (!read.success) throw new Error(read.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('\n'));
  const valid = read.data;
  const allowed = parseAllowList(valid.EGRESS_ALLOW);
  if (!allowed.ok) throw new Error(allowed.errors.map((error) => `EGRESS_ALLOW ${error}`).join('\n'));
  const isTest = (valid.ONWARD_TEST_CLOCK === '1' || valid.ONWARD_TEST_CLOCK === 'true') && valid.NODE_ENV !== 'production';
  return {
    valkeyUrl: valid.VALKEY_URL,
    backend: {
      host: valid.BACKEND_MICROSERVICE_TARGET_HOST,
      port: valid.BACKEND_MICROSERVICE_TARGET_PORT,
      secret: valid.BACKEND_MICROSERVICE_SECRET,
      timeoutMs: valid.AUTOMATIONS_BACKEND_RPC_TIMEOUT_MS,
    },
    leaseMs: valid.AUTOMATIONS_LEASE_MS,
    concurrency: valid.AUTOMATIONS_WORKER_CONCURRENCY,
    breakerResetMs: valid.AUTOMATIONS_BREAKER_RESET_MS,
    silentForMs: valid.AUTOMATIONS_SILENT_QUEUE_MS,
    allow: allowed.allow,
    logLevel: valid.LOG_LEVEL,
    failPoints: isTest ? valid.ONWARD_FAIL_POINTS : '',
  };
}
