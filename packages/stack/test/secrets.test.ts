import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ensureSecrets } from '../src/secrets.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();

test('secrets are made once, of 32 random bytes each, readable by their owner only', () => {
  const home = join(folder, 'once');
  const made = ensureSecrets(home);
  expect(ensureSecrets(home)).toEqual(made);
  const values = Object.values(made);
  expect(values.map((value) => Buffer.from(value, 'base64url').length)).toEqual([32, 32]);
  expect(new Set(values).size).toBe(2);
  expect(statSync(join(home, 'secrets.json')).mode & 0o777).toBe(0o600);
  expect(ensureSecrets(join(folder, 'another'))).not.toEqual(made);
});

test('a secrets file that others could read is closed to them', () => {
  const home = join(folder, 'open');
  ensureSecrets(home);
  chmodSync(join(home, 'secrets.json'), 0o644);
  ensureSecrets(home);
  expect(statSync(join(home, 'secrets.json')).mode & 0o777).toBe(0o600);
});

test('a secrets file that cannot be understood is an error and stays as it is', () => {
  const home = join(folder, 'broken');
  ensureSecrets(home);
  const file = join(home, 'secrets.json');
  for (const text of ['', '{"ONWARD_SECRET_KEY":"short"}', '{"BACKEND_MICROSERVICE_SECRET":"a b","ONWARD_SECRET_KEY":7}']) {
    writeFileSync(file, text);
    expect(() => ensureSecrets(home)).toThrow('does not hold BACKEND_MICROSERVICE_SECRET and ONWARD_SECRET_KEY');
    expect(readFileSync(file, 'utf8')).toBe(text);
  }
});
