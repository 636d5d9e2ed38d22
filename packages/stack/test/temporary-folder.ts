/** A folder for one test file, removed when its tests are through; swept by a later run when this one is killed. */
import { rmSync } from 'node:fs';
import { afterAll } from 'vitest';
import { makeTestFolder } from '../src/test-services.js';

export function makeTemporaryFolder(): string {
  const folder = makeTestFolder();
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
