import { z } from 'zod';

/**
 * The backend's settings: the only reader of process.env in this process. Checked once at start; a wrong value stops the start
 * with a line that names it. `.env.example` beside package.json documents each that is not for tests alone.
 */
const port = z.coerce.number().int().min(0).max(65_535);
const flag = z
  .enum(['true', 'false', '1', '0', ''])
  .transform((text) => text === 'true' || text === '1')
  .default(false);
const addresses = z
  .string()
  .default('')
  .transform((text) => text.split(',').flatMap((address) => address.trim() || []))
  .pipe(z.array(z.email('must be mail addresses parted by commas')).max(20));

const settingsSchema = z
  .object({
    NODE_ENV: z.string().default('development'),
    DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
    DATABASE_POOL_SIZE: z.coerce.number().int().min(2).max(200).default(20),
    VALKEY_URL: z.url({ protocol: /^rediss?$/ }),
    HOST: z.string().default('127.0.0.1'),
    PORT: port.default(3000),
    PUBLIC_URL: z.url().default('http://127.0.0.1:3000'),
    BACKEND_MICROSERVICE_HOST: z.string().default('127.0.0.1'),
    BACKEND_MICROSERVICE_PORT: port.default(3103),
    BACKEND_MICROSERVICE_SECRET: z.string().min(32, 'must be at least 32 characters of random text'),
    /** The secret that is being replaced; a message signed with it is still taken. */
    BACKEND_MICROSERVICE_SECRET_PREVIOUS: z.string().min(32, 'must be at least 32 characters of random text').optional(),
    ONWARD_SECRET_KEY: z.string().min(32, 'must be at least 32 characters of random text'),
    MAIL_FROM: z.string().min(3).default('Onward <onward@localhost>'),
    /** Mail addresses, parted by commas, that are told of every failed run, beside those a workflow names itself. */
    AUTOMATIONS_NOTIFY_TO: addresses,
    AUTOMATIONS_LEASE_MS: z.coerce.number().int().min(500).default(30_000),
    AUTOMATIONS_SWEEP_INTERVAL_MS: z.coerce.number().int().min(100).default(5_000),
    AUTOMATIONS_BREAKER_RESET_MS: z.coerce.number().int().min(100).default(30_000),
    AUTOMATIONS_MAX_STEPS_PER_RUN: z.coerce.number().int().min(1).default(1_000),
    AUTOMATIONS_UNKNOWN_NODE: z.enum(['advance', 'fail']).default('advance'),
    AUTOMATIONS_MINIMUM_WAIT_MS: z.coerce.number().int().min(0).default(60_000),
    DRAIN_TIMEOUT_MS: z.coerce.number().int().min(0).default(20_000),
    LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    ONWARD_TEST_CLOCK: flag,
    /** Written once with the first API key, readable by its owner alone. */
    ONWARD_FIRST_KEY_FILE: z.string().optional(),
    /** `name:action@n`: what to do at a named fail point; read only with the test clock on. */
    ONWARD_FAIL_POINTS: z.string().default(''),
  })
  .superRefine((env, check) => {
    if (env.ONWARD_TEST_CLOCK && env.NODE_ENV === 'production') {
      check.addIssue({ code: 'custom', path: ['ONWARD_TEST_CLOCK'], message: 'is refused when NODE_ENV is production' });
    }
    if (!env.ONWARD_TEST_CLOCK && env.AUTOMATIONS_MINIMUM_WAIT_MS < 60_000) {
      check.addIssue({ code: 'custom', path: ['AUTOMATIONS_MINIMUM_WAIT_MS'], message: 'may be below one minute only with ONWARD_TEST_CLOCK' });
    }
  });

export type Settings = ReturnType<typeof readSettings>;

/** Reads and checks the environment. Throws an Error whose message lists every wrong variable. */
export function readSettings(env: NodeJS.ProcessEnv = process.env) {
  const read = settingsSchema.safeParse(Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')));
  if (!read.success) {
    throw new Error(`Settings are wrong:\n${read.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`).join('\n')}`);
  }
  const found = read.data;
  return {
    isProduction: found.NODE_ENV === 'production',
    databaseUrl: found.DATABASE_URL,
    databasePoolSize: found.DATABASE_POOL_SIZE,
    valkeyUrl: found.VALKEY_URL,
    host: found.HOST,
    port: found.PORT,
    publicUrl: found.PUBLIC_URL.replace(/\/$/, ''),
    rpcHost: found.BACKEND_MICROSERVICE_HOST,
    rpcPort: found.BACKEND_MICROSERVICE_PORT,
    /** The present secret first, then the one that is being replaced, if there is one. */
    rpcSecrets: rpcSecretsOf(found.BACKEND_MICROSERVICE_SECRET, found.BACKEND_MICROSERVICE_SECRET_PREVIOUS),
    secretKey: found.ONWARD_SECRET_KEY,
    mailFrom: found.MAIL_FROM,
    notifyTo: found.AUTOMATIONS_NOTIFY_TO,
    leaseMs: found.AUTOMATIONS_LEASE_MS,
    sweepIntervalMs: found.AUTOMATIONS_SWEEP_INTERVAL_MS,
    breakerResetMs: found.AUTOMATIONS_BREAKER_RESET_MS,
    maxStepsPerRun: found.AUTOMATIONS_MAX_STEPS_PER_RUN,
    onUnknownNode: found.AUTOMATIONS_UNKNOWN_NODE,
    minimumWaitMs: found.AUTOMATIONS_MINIMUM_WAIT_MS,
    drainTimeoutMs: found.DRAIN_TIMEOUT_MS,
    logLevel: found.LOG_LEVEL,
    hasTestClock: found.ONWARD_TEST_CLOCK,
    firstKeyFile: found.ONWARD_FIRST_KEY_FILE,
    failPoints: found.ONWARD_TEST_CLOCK ? found.ONWARD_FAIL_POINTS : '',
  };
}

function rpcSecretsOf(current: string, previous: string | undefined): readonly [current: string] | readonly [current: string, previous: string] {
  return previous === undefined ? [current] : [current, previous];
}

/** Injection token of the settings read at start. */
export const SETTINGS = Symbol('settings');
