/** A folder for one test file, which other accounts may enter, removed when the tests are through. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

export function makeTemporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'stack-test-'));
  chmodSync(folder, 0o711);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
