/**
 * `npm start`: everything Onward needs, started in order, kept running until Ctrl+C, stopped in the opposite order.
 *
 * PostgreSQL, Valkey and mail are the ones of DATABASE_URL, VALKEY_URL and SMTP_URL when set, embedded ones otherwise. Data
 * stay in `.onward/` between starts. With `--once` a database of its own is made anew, the test clock is on, and
 * everything stops after the samples have run. `--fresh` removes all data of this checkout first. `--verbose` shows every line of
 * every process.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { awaitStopSignal } from './await-stop-signal.js';
import { claimCheckout } from './claim-checkout.js';
import { inheritEnvironment, readGivenSecrets, readGivenSettings } from './environment.js';
import { endLeftOvers } from './end-left-overs.js';
import { forgetCheckout, hasLostItsKeys } from './forget-checkout.js';
import { freePort } from './free-port.js';
import { CHECKOUT, describeSettings, HOME_FOLDER, removeInstance, writeInstance } from './instance.js';
import type { Log } from './log.js';
import { BACKEND, startProcesses } from './onward-processes.js';
import { runSamples, type SamplesPlan } from './samples/run-samples.js';
import { ensureSecrets } from './secrets.js';
import { DEFAULT_PORTS, type Services, startServices } from './services.js';
import type { Supervised } from './supervisor.js';
import { createTeardown, Interrupted, type Teardown } from './teardown.js';
import { createTerminalLog, type TerminalLog } from './terminal-log.js';

export type StartOptions = { readonly isOnce: boolean; readonly isFresh: boolean; readonly isVerbose: boolean };

const OPTIONS = ['--once', '--fresh', '--verbose'];

/** What is up and how to reach it. */
export type Onward = { readonly apiUrl: string; readonly firstKeyFile: string; readonly services: Services; readonly processes: readonly Supervised[] };

/** Answers the exit code: 0 after a clean stop; 1 when something did not start, or with `--once` not every sample run ended as it should. */
export async function startOnward(args: readonly string[]): Promise<number> {
  const [stranger] = args.filter((arg) => !OPTIONS.includes(arg));
  if (stranger !== undefined) {
    process.stderr.write(`There is no option ${stranger}; there are ${OPTIONS.join(', ')} (npm start -- --once).\n`);
    return 1;
  }
  const options: StartOptions = { isOnce: args.includes('--once'), isFresh: args.includes('--fresh'), isVerbose: args.includes('--verbose') };
  if (options.isFresh && readGivenSettings().databaseUrl !== undefined) {
    process.stderr.write('--fresh removes the database that Onward keeps in this checkout; the one of DATABASE_URL is yours to empty. Nothing was done.\n');
    return 1;
  }
  const folder = options.isOnce ? join(HOME_FOLDER, 'once') : HOME_FOLDER;
  const claimed = claimCheckout(HOME_FOLDER);
  if (claimed.kind === 'held') {
    process.stderr.write(`${claimed.sentence}\n`);
    return 1;
  }
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  try {
    if (options.isFresh) {
      await endLeftOvers(join(HOME_FOLDER, 'run'), BACKEND.name, say);
      await forgetCheckout(HOME_FOLDER, say);
    }
  } catch (error) {
    claimed.release();
    return report(error, say);
  }
  if (options.isOnce) rmSync(folder, { recursive: true, force: true });
  const terminal = createTerminalLog(join(folder, 'log'), options.isVerbose);
  const teardown = createTeardown(terminal.say);
  const givenUp = new AbortController();
  let processes: readonly Supervised[] = [];
  const { asked } = awaitStopSignal(() => {
    for (const one of processes) one.kill('SIGKILL');
  });

  const starting = (async (): Promise<number> => {
    const onward = await startEverything({ options, folder, terminal, teardown, givenUp: givenUp.signal });
    processes = onward.processes;
    describe(onward, options, terminal);
    const { ok } = await tellSamples(onward, { hasTestClock: options.isOnce, say: terminal.say, signal: givenUp.signal });
    if (options.isOnce) return ok ? 0 : 1;
    terminal.say('\nCtrl+C stops everything.');
    await asked;
    return 0;
  })();
  const code = await Promise.race([starting, asked.then(() => (options.isOnce ? 1 : 0))]).catch((error: unknown) => report(error, terminal.say));
  givenUp.abort();
  terminal.say('Stopping …');
  await teardown.run();
  await starting.catch(() => undefined);
  await teardown.run(); // what came up while the first run was at work
  claimed.release();
  await terminal.close();
  terminal.say('Stopped.');
  return code;
}

type Start = { options: StartOptions; folder: string; terminal: TerminalLog; teardown: Teardown; givenUp: AbortSignal };

async function startEverything({ options: { isOnce }, folder, terminal, teardown, givenUp }: Start): Promise<Onward> {
  const given = readGivenSettings();
  const runDir = join(HOME_FOLDER, 'run');
  await endLeftOvers(runDir, BACKEND.name, terminal.say);
  if (given.databaseUrl === undefined && hasLostItsKeys(HOME_FOLDER)) {
    const where = relative(CHECKOUT, HOME_FOLDER);
    terminal.say(`${where}/ was removed, the database of an earlier start was not: it goes on with new keys, and cannot read the secrets stored in it.`);
  }
  const secrets = ensureSecrets(HOME_FOLDER);
  mkdirSync(folder, { recursive: true });
  const databaseName = isOnce ? 'onward_once' : 'onward';
  const services = await startServices({ homeFolder: HOME_FOLDER, folder, databaseName, isFresh: isOnce, given, log: terminal.say, teardown });

  const ports = { http: await takePort(given.port, DEFAULT_PORTS.http, terminal), rpc: await takePort(given.rpcPort, DEFAULT_PORTS.rpc, terminal) };
  const apiUrl = `http://127.0.0.1:${ports.http}`;
  const sinkAddress = `127.0.0.1:${services.webhookSink.port}`;
  const firstKeyFile = join(folder, 'first-api-key');
  const settings = describeSettings({
    ...services,
    mailFrom: given.mailFrom ?? 'Onward <onward@example.test>',
    publicUrl: given.publicUrl ?? apiUrl,
    ports,
    egressAllow: given.egressAllow === undefined ? sinkAddress : `${given.egressAllow},${sinkAddress}`,
    firstKeyFile,
  });
  const instanceFile = join(HOME_FOLDER, 'instance.json');
  writeInstance(instanceFile, { settings, inboxUrl: services.inboxUrl, webhookSinkUrl: services.webhookSink.pageUrl });
  await teardown.add(async () => removeInstance(instanceFile));

  // A clock that is moved on brings three attempts of a step within a second, which a breaker would take for a storm of failures.
  const onlyOnce: Readonly<Record<string, string>> = isOnce ? { ONWARD_TEST_CLOCK: '1', NODE_ENV: 'test', AUTOMATIONS_BREAKER_RESET_MS: '500' } : {};
  const env = inheritEnvironment({ ...secrets, ...readGivenSecrets(), ...settings, ...onlyOnce });
  const processes = await startProcesses({ env, runDir, terminal, teardown, backendUrl: apiUrl, givenUp });
  return { apiUrl, firstKeyFile, services, processes };
}

/** The samples go through the API with the first key; on a database whose first key was made elsewhere there is none here. */
async function tellSamples({ apiUrl, firstKeyFile, services }: Onward, how: Pick<SamplesPlan, 'hasTestClock' | 'say' | 'signal'>): Promise<{ ok: boolean }> {
  const keyFile = relative(CHECKOUT, firstKeyFile);
  if (!existsSync(firstKeyFile)) {
    how.say(`\nThe samples are left out: there is no API key in ${keyFile}, and the database, made earlier, gives out no other by itself.`);
    how.say('  to go on with its data   node scripts/create-api-key.mjs <name>, in another terminal, makes another key');
    how.say(`  to have the samples      put that key into ${keyFile} and start again`);
    how.say('  to begin anew            npm start -- --fresh removes all data of this checkout');
    return { ok: false };
  }
  const apiKey = readFileSync(firstKeyFile, 'utf8').trim();
  return runSamples({
    apiUrl,
    apiKey,
    keyFile,
    logFolder: relative(CHECKOUT, join(dirname(firstKeyFile), 'log')),
    webhookSinkUrl: services.webhookSink.url,
    inboxUrl: services.inboxUrl,
    ...how,
  });
}

/** A port that was asked for is used as it is; a default that is taken gives the next free one, and says so. */
async function takePort(given: string | undefined, preferred: number, { say }: TerminalLog): Promise<number> {
  if (given !== undefined) return Number(given);
  const port = await freePort(preferred);
  if (port !== preferred) say(`port ${preferred} is taken, using ${port}`);
  return port;
}

function describe({ apiUrl, firstKeyFile, services }: Onward, { isOnce }: StartOptions, { say }: TerminalLog): void {
  const rows = [
    ['API', `${apiUrl}/api/v1`],
    ['API docs', `${apiUrl}/api/docs (a browser asks: any name, the API key as password)`],
    ['API key', `in ${relative(CHECKOUT, firstKeyFile)}`],
    ['Inbox', services.inboxUrl ?? 'mail goes to SMTP_URL'],
    ['Webhook sink', services.webhookSink.pageUrl],
    ['Logs', `in ${relative(CHECKOUT, join(dirname(firstKeyFile), 'log'))}`],
  ] as const;
  say(isOnce ? '\nOnward is running, until the samples have ended.' : '\nOnward is running.');
  for (const [name, where] of rows) say(`  ${name.padEnd(14)}${where}`);
}

function report(error: unknown, say: Log): number {
  if (!(error instanceof Interrupted)) say(`\n${error instanceof Error ? error.message : String(error)}`);
  return 1;
}
