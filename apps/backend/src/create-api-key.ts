import { createApiKey } from './access/create-api-key.js';
import { createDataSource } from './database/data-source.js';
import { transact } from './database/sql.js';
import { readSettings } from './settings.js';

/** `node dist/create-api-key.js <name>`: makes an API key beside a running backend and prints it on a line of its own. */
const [given = '', ...more] = process.argv.slice(2);
const name = given.trim();
if (name === '' || name.length > 100 || more.length > 0) {
  process.stderr.write('Usage: create-api-key <name>   (1 to 100 characters, in quotes when it holds a space; it says whose key it is)\n');
  process.exitCode = 2;
} else {
  const source = createDataSource(readSettings().databaseUrl, 2, () => undefined);
  await source.initialize();
  try {
    const made = await transact(source, (tx) => createApiKey(tx, name));
    process.stdout.write(`${made.key}\n`);
  } finally {
    await source.destroy();
  }
}
