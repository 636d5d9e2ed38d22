/**
 * The settings of the process: the only file here that reads `process.env`. Checked once, at the start; what is wrong is
 * named by its variable and never printed with its value, since several of them hold a secret.
 */
import { RPC_TIMEOUT_MS } from '@onward/contracts/patterns';
import { z } from 'zod';

const wholeNumber = z.coerce.number({ error: 'must be a whole number' }).int({ error: 'must be a whole number' });

function urlOf(...protocols: string[]) {
  const shape = `must be a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`;
  return z.string({ error: `is missing: it ${shape}` }).refine((text) => URL.canParse(text) && protocols.includes(new URL(text).protocol), { error: shape });
}

const settingsSchema = z.object({
  NODE_ENV: z.string().default('development'),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  ONWARD_TEST_CLOCK: z.enum(['', '0', '1', 'true', 'false']).default(''),
  ONWARD_FAIL_POINTS: z.string().default(''),
  VALKEY_URL: urlOf('redis:', 'rediss:'),
  SMTP_URL: urlOf('smtp:', 'smtps:'),
  BACKEND_MICROSERVICE_TARGET_HOST: z.string().default('127.0.0.1'),
  BACKEND_MICROSERVICE_TARGET_PORT: wholeNumber.min(1, { error: 'must be a port' }).max(65_535, { error: 'must be a port' }).default(3103),
  BACKEND_MICROSERVICE_SECRET: z
    .string({ error: 'is missing: it must be the secret the backend was started with' })
    .min(32, { error: 'must have at least 32 characters' }),
  AUTOMATIONS_BACKEND_RPC_TIMEOUT_MS: wholeNumber.min(1_000, { error: 'must be at least 1000' }).default(RPC_TIMEOUT_MS),
  MAIL_GATEWAY_CONCURRENCY: wholeNumber.min(1, { error: 'must be between 1 and 1000' }).max(1_000, { error: 'must be between 1 and 1000' }).default(10),
});

export interface Settings {
  valkeyUrl: string;
  smtpUrl: string;
  backend: { host: string; port: number; secret: string; timeoutMs: number };
  /** Messages handed to SMTP at the same time, and SMTP connections held at most. */
  concurrency: number;
  logLevel: string;
  /** Read only with the test clock on. */
  failPoints: string;
}

/** The settings, or one sentence for every variable that is missing or wrong. An empty variable counts as missing. */
export function readSettings(env: NodeJS.ProcessEnv = process.env): { kind: 'settings'; settings: Settings } | { kind: 'invalid'; problems: string[] } {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const read = settingsSchema.safeParse(given);
  if (!read.success) return { kind: 'invalid', problems: read.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`) };
  const valid = read.data;
  return {
    kind: 'settings',
    settings: {
      valkeyUrl: valid.VALKEY_URL,
      smtpUrl: valid.SMTP_URL,
      logLevel: valid.LOG_LEVEL,
      backend: {
        host: valid.BACKEND_MICROSERVICE_TARGET_HOST,
        port: valid.BACKEND_MICROSERVICE_TARGET_PORT,
        secret: valid.BACKEND_MICROSERVICE_SECRET,
        timeoutMs: valid.AUTOMATIONS_BACKEND_RPC_TIMEOUT_MS,
      },
      concurrency: valid.MAIL_GATEWAY_CONCURRENCY,
      failPoints: valid.NODE_ENV !== 'production' && /^(1|true)$/.test(valid.ONWARD_TEST_CLOCK) ? valid.ONWARD_FAIL_POINTS : '',
    },
  };
}
