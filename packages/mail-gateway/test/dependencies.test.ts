/** The gateway must be able to run where no database can be reached, so it may not even carry the means. */
import { readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const FORBIDDEN = /^(pg|pg-.*|typeorm|express|fastify|@nestjs\/.*)$/;

/** The folder of a package as seen from another's folder. */
function folderOf(name: string, from: string): string {
  for (let at = from; ; at = dirname(at)) {
    try {
      return realpathSync(join(at, 'node_modules', name));
    } catch (error) {
      if (at === dirname(at)) throw error;
    }
  }
}

test('the declared dependencies, and theirs, hold no database client and no web framework', () => {
  const seen = new Map<string, string>();
  const visit = (folder: string) => {
    const { dependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { dependencies?: Record<string, string> };
    for (const name of Object.keys(dependencies)) {
      const found = folderOf(name, folder);
      if (seen.has(found)) continue;
      seen.set(found, name);
      visit(found);
    }
  };
  visit(fileURLToPath(new URL('..', import.meta.url)));
  const names = [...seen.values()];
  expect(names).toContain('bullmq');
  expect(names.filter((name) => FORBIDDEN.test(name))).toEqual([]);
});
