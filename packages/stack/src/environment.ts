/**
 * The one place where this package touches `process.env`.
 *
 * Every program of the package (stack, npm start, test services) takes its settings from here, so that what the
 * environment can change is known from one file. An empty variable counts as not set.
 */
import { homedir } from 'node:os';

function read(name: string): string | undefined {
  const value = process.env[name];
  return value === undefined || value === '' ? undefined : value;
}

/** Folders in which commands are looked for, in order. */
export function readSearchPath(): string {
  return read('PATH') ?? '/usr/local/bin:/usr/bin:/bin';
}

/** Base folder for files that can be fetched again: `XDG_CACHE_HOME`, else `~/.cache`; undefined without a home. */
export function readCacheHome(): string | undefined {
  const home = homedir();
  return read('XDG_CACHE_HOME') ?? (home === '' || home === '/' ? undefined : `${home}/.cache`);
}

/** A whole environment for a child that should see what we see, but for what npm adds for its scripts, with `additions` on top. */
export function inheritEnvironment(additions: Readonly<Record<string, string>>): Record<string, string> {
  const inherited: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) if (value !== undefined && !name.toLowerCase().startsWith('npm_')) inherited[name] = value;
  return { ...inherited, ...additions };
}

/** Settings of product processes that a person may give to `npm start`; whatever is missing is provided by the stack. */
export type GivenSettings = {
  readonly databaseUrl: string | undefined;
  readonly valkeyUrl: string | undefined;
  readonly smtpUrl: string | undefined;
  readonly mailFrom: string | undefined;
  readonly publicUrl: string | undefined;
  readonly port: string | undefined;
  readonly rpcPort: string | undefined;
  readonly egressAllow: string | undefined;
};

export function readGivenSettings(): GivenSettings {
  return {
    databaseUrl: read('DATABASE_URL'),
    valkeyUrl: read('VALKEY_URL'),
    smtpUrl: read('SMTP_URL'),
    mailFrom: read('MAIL_FROM'),
    publicUrl: read('PUBLIC_URL'),
    port: read('PORT'),
    rpcPort: read('BACKEND_MICROSERVICE_PORT'),
    egressAllow: read('EGRESS_ALLOW'),
  };
}

/** The secrets a person gives instead of the ones the checkout made; only what is set. */
export function readGivenSecrets(): Readonly<Record<string, string>> {
  const given: Record<string, string> = {};
  for (const name of ['BACKEND_MICROSERVICE_SECRET', 'ONWARD_SECRET_KEY']) {
    const value = read(name);
    if (value !== undefined) given[name] = value;
  }
  return given;
}

/** Servers that tests should use instead of starting their own. `postgresUrl` is a superuser's, on database `postgres`. */
export type TestServices = { readonly postgresUrl: string | undefined; readonly valkeyUrl: string | undefined };

export function readTestServices(): TestServices {
  return { postgresUrl: read('ONWARD_TEST_POSTGRES_URL'), valkeyUrl: read('ONWARD_TEST_VALKEY_URL') };
}

/** Tells test files, which run in child processes, where the servers are; undefined takes a variable away. */
export function publishTestServices(services: TestServices): void {
  publish('ONWARD_TEST_POSTGRES_URL', services.postgresUrl);
  publish('ONWARD_TEST_VALKEY_URL', services.valkeyUrl);
}

function publish(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}
