/**
 * `pnpm api-key:create <name>`: makes another API key in the installation that runs in this checkout, or in the one the environment names, and
 * prints it once.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { readInstanceSettings } from './instance-settings.mjs';

const settings = readInstanceSettings();
if (settings === undefined) {
  process.stderr.write('Nothing runs in this checkout: start it with `npm start`, or set the settings of apps/backend/.env.example\n');
  process.exit(1);
}
const program = fileURLToPath(new URL('../apps/backend/dist/create-api-key.js', import.meta.url));
const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], { stdio: 'inherit', env: { ...settings, ...process.env } });
process.exit(status ?? 1);
