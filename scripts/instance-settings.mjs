/** The settings of what runs in this checkout, for processes started beside it: `.onward/instance.json` and `.onward/secrets.json`. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Undefined while nothing runs here and the environment alone is not enough. */
export function readInstanceSettings() {
  const settings = readJson('instance.json')?.settings;
  const secrets = readJson('secrets.json');
  if (settings !== undefined && secrets !== undefined) return { ...settings, ...secrets };
  return process.env.VALKEY_URL && process.env.BACKEND_MICROSERVICE_SECRET ? {} : undefined;
}

function readJson(name) {
  try {
    return JSON.parse(readFileSync(fileURLToPath(new URL(`../.onward/${name}`, import.meta.url)), 'utf8'));
  } catch {
    return undefined;
  }
}
