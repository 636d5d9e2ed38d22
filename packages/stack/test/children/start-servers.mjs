// Starts PostgreSQL, and Valkey when asked, in the folder given, says where, and stays until it is killed.
// usage: node start-servers.mjs <folder> [postgres] [valkey]
import { startPostgres } from '../../dist/postgres.js';
import { startValkey } from '../../dist/valkey.js';

const [folder, ...wanted] = process.argv.slice(2);
const postgres = wanted.includes('postgres') ? await startPostgres({ dataDir: `${folder}/postgres` }) : undefined;
const valkey = wanted.includes('valkey') ? await startValkey({ dataDir: `${folder}/valkey` }) : undefined;
const answer = {
  uid: process.getuid?.(),
  postgres: postgres && { pid: postgres.pid, url: postgres.url('postgres') },
  valkey: valkey && { pid: valkey.pid, url: valkey.url },
};
process.stdout.write(`${JSON.stringify(answer)}\n`);
process.once('SIGTERM', () => void stop());
process.stdin.resume().once('end', () => process.exit(1)); // whoever started this is gone; the exit asks the servers to end

async function stop() {
  await valkey?.stop();
  await postgres?.stop();
  process.exit(0);
}
