/**
 * `pnpm stack:dev`: PostgreSQL, Valkey, the mail sink and the webhook sink, for developing the other processes by hand.
 *
 * Writes `.onward/instance.json` and `.onward/secrets.json`, from which the `…:dev` scripts of the other packages take
 * their settings. Reads no DATABASE_URL, VALKEY_URL or SMTP_URL: who has those needs no stack. Stays until Ctrl+C.
 */
import { join } from 'node:path';
import { awaitStopSignal } from './await-stop-signal.js';
import { claimCheckout } from './claim-checkout.js';
import { endLeftOvers } from './end-left-overs.js';
import { freePort } from './free-port.js';
import { describeSettings, HOME_FOLDER, removeInstance, writeInstance } from './instance.js';
import { ensureSecrets } from './secrets.js';
import { DEFAULT_PORTS, startServices } from './services.js';
import { createTeardown, Interrupted, type Teardown } from './teardown.js';

const say = (line: string): void => void process.stdout.write(`${line}\n`);

async function startStack(teardown: Teardown): Promise<void> {
  const claimed = claimCheckout(HOME_FOLDER);
  if (claimed.kind === 'held') throw new Error(claimed.sentence);
  await teardown.add(async () => claimed.release());
  await endLeftOvers(join(HOME_FOLDER, 'run'), 'backend', say);
  ensureSecrets(HOME_FOLDER);
  const services = await startServices({ homeFolder: HOME_FOLDER, folder: HOME_FOLDER, databaseName: 'onward', isFresh: false, given: {}, log: say, teardown });
  const ports = { http: await freePort(DEFAULT_PORTS.http), rpc: await freePort(DEFAULT_PORTS.rpc) };
  const settings = describeSettings({
    ...services,
    mailFrom: 'Onward <onward@example.test>',
    publicUrl: `http://127.0.0.1:${ports.http}`,
    ports,
    egressAllow: `127.0.0.1:${services.webhookSink.port}`,
    firstKeyFile: join(HOME_FOLDER, 'first-api-key'),
  });
  const instanceFile = join(HOME_FOLDER, 'instance.json');
  writeInstance(instanceFile, { settings, inboxUrl: services.inboxUrl, webhookSinkUrl: services.webhookSink.pageUrl });
  await teardown.add(async () => removeInstance(instanceFile));
  say('\nThe stack is running.');
  const withoutPassword = new URL(services.databaseUrl);
  withoutPassword.password = '';
  say(`  PostgreSQL    ${withoutPassword.href}`);
  say(`  Valkey        ${services.valkeyUrl}`);
  say(`  Mail          ${services.smtpUrl}, inbox ${services.inboxUrl}`);
  say(`  Webhook sink  ${services.webhookSink.pageUrl}`);
  say(`  Backend       will listen on ${ports.http} (HTTP) and ${ports.rpc} (workers)`);
  say('Now, each in a terminal:');
  for (const name of ['backend', 'automation-worker', 'mail-gateway']) say(`  npx pnpm@12.4.2 ${name}:dev`);
  say('Ctrl+C stops the stack.');
}

const teardown = createTeardown(say);
const { asked } = awaitStopSignal(() => {});
const starting = startStack(teardown);
starting.catch((error: unknown) => {
  process.exitCode = 1;
  if (!(error instanceof Interrupted)) say(error instanceof Error ? error.message : String(error));
});
await Promise.race([asked, starting.then(() => asked)]).catch(() => undefined);
await teardown.run();
await starting.catch(() => undefined);
await teardown.run();
process.exit();
