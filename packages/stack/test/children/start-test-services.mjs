// Starts servers in a folder of a test run, says where and as which processes, and stays until it is killed.
import { makeTestFolder } from '../../dist/test-services.js';
import { startPostgres } from '../../dist/postgres.js';
import { startValkey } from '../../dist/valkey.js';

const folder = makeTestFolder();
const postgres = await startPostgres({ dataDir: `${folder}/postgres` });
const valkey = await startValkey({ dataDir: `${folder}/deeper/valkey` });
process.stdout.write(`${JSON.stringify({ folder, pids: [postgres.pid, valkey.pid] })}\n`);
process.stdin.resume().once('end', () => process.exit(1)); // whoever started this is gone; the exit asks the servers to end
