/**
 * What Onward's processes stand on: PostgreSQL, Valkey, a mail server and something to call.
 *
 * Each that is given by a URL is used as it is; each other is started here, on its default port or the next free one.
 * PostgreSQL and Valkey are kept running: one that dies comes back on its port.
 */
import { join } from 'node:path';
import { dropDatabase, ensureDatabase, urlOfDatabase } from './ensure-database.js';
import { freePort } from './free-port.js';
import { keepService } from './keep-service.js';
import type { Log } from './log.js';
import { startMailSink } from './mail-sink.js';
import { startPostgres } from './postgres.js';
import type { Teardown } from './teardown.js';
import { findValkey, startValkey } from './valkey.js';
import { tellOnce } from './tell-once.js';
import { startWebhookSink } from './webhook-sink.js';

export const DEFAULT_PORTS = { http: 3000, rpc: 3103, postgres: 15_432, valkey: 16_379, smtp: 1_025, inbox: 8_025, webhooks: 8_026 } as const;

export type ServicesPlan = {
  /** PostgreSQL's data go here; they are shared by the databases of all plans. */
  readonly homeFolder: string;
  /** Valkey's data and the recorded mail go here. */
  readonly folder: string;
  readonly databaseName: string;
  /** Whether the database is dropped first. */
  readonly isFresh: boolean;
  readonly given: { readonly databaseUrl?: string | undefined; readonly valkeyUrl?: string | undefined; readonly smtpUrl?: string | undefined };
  readonly log: Log;
  readonly teardown: Teardown;
};

export type Services = {
  readonly databaseUrl: string;
  readonly valkeyUrl: string;
  readonly smtpUrl: string;
  /** Undefined when mail goes to a server that was given. */
  readonly inboxUrl: string | undefined;
  readonly webhookSink: { readonly url: string; readonly pageUrl: string; readonly port: number };
};

/** Starts what is missing. Throws with a sentence for people; what was started until then is in the teardown. */
export async function startServices(plan: ServicesPlan): Promise<Services> {
  const sinks = await startSinks(plan);
  const tell = tellOnce(join(plan.homeFolder, 'told.json'), plan.log);
  const [databaseUrl, valkeyUrl] = await settleBoth(provideDatabase(plan, tell), provideValkey(plan, tell));
  return { databaseUrl, valkeyUrl, ...sinks };
}

/** Like Promise.all, but waits for the other one before it throws, so that nothing comes up behind our back. */
async function settleBoth<A, B>(a: Promise<A>, b: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([a, b]);
  return Promise.all([a, b]);
}

async function provideDatabase({ homeFolder, databaseName, isFresh, given, log, teardown }: ServicesPlan, tell: Log): Promise<string> {
  if (given.databaseUrl !== undefined) {
    log('database: the server of DATABASE_URL');
    if (!isFresh) return given.databaseUrl;
    await dropDatabase(given.databaseUrl, databaseName);
    return ensureDatabase(given.databaseUrl, databaseName);
  }
  const start = (port = DEFAULT_PORTS.postgres as number) => startPostgres({ dataDir: join(homeFolder, 'postgres'), port, log });
  const kept = await keepService('PostgreSQL', start, log);
  await teardown.add(() => kept.stop());
  const { version, dataDir, url } = kept.current();
  tell(`database: PostgreSQL ${version} from the npm package, data in ${dataDir}`);
  const adminUrl = url('postgres');
  if (isFresh) await dropDatabase(adminUrl, databaseName);
  await ensureDatabase(adminUrl, databaseName);
  return urlOfDatabase(adminUrl, databaseName);
}

async function provideValkey({ folder, given, log, teardown }: ServicesPlan, tell: Log): Promise<string> {
  if (given.valkeyUrl !== undefined) {
    log('queue store: the server of VALKEY_URL');
    return given.valkeyUrl;
  }
  const program = await findValkey(tell);
  const start = (port = DEFAULT_PORTS.valkey as number) => startValkey({ dataDir: join(folder, 'valkey'), port, log, program });
  const kept = await keepService('Valkey', start, log);
  await teardown.add(() => kept.stop());
  return kept.current().url;
}

async function startSinks({ folder, given, log, teardown }: ServicesPlan): Promise<Pick<Services, 'smtpUrl' | 'inboxUrl' | 'webhookSink'>> {
  const inboxPort = given.smtpUrl === undefined ? await freePort(DEFAULT_PORTS.inbox) : undefined;
  const links = inboxPort === undefined ? [] : [{ label: 'Inbox', url: `http://127.0.0.1:${inboxPort}/` }];
  const webhookSink = await startWebhookSink({ port: DEFAULT_PORTS.webhooks, links });
  await teardown.add(() => webhookSink.stop());
  if (given.smtpUrl !== undefined || inboxPort === undefined) {
    log('mail: the server of SMTP_URL');
    return { smtpUrl: given.smtpUrl ?? '', inboxUrl: undefined, webhookSink };
  }
  const mailSink = await startMailSink({
    smtpPort: DEFAULT_PORTS.smtp,
    httpPort: inboxPort,
    storeFile: join(folder, 'mail.ndjson'),
    links: [{ label: 'Webhook sink', url: webhookSink.pageUrl }],
  });
  await teardown.add(() => mailSink.stop());
  return { smtpUrl: mailSink.smtpUrl, inboxUrl: mailSink.inboxUrl, webhookSink };
}
