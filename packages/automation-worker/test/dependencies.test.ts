/** The worker must be able to run where no database can be reached, so it may not even carry the means. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const FORBIDDEN = /^(pg|pg-.*|typeorm|express|fastify|@nestjs\/.*)$/;

type Manifest = { dependencies?: Record<string, string>; optionalDependencies?: Record<string, string>; peerDependencies?: Record<string, string> };

/** The folder of a package as seen from another's folder; undefined when it is not installed. */
function folderOf(name: string, from: string): string | undefined {
  for (let at = from; ; at = dirname(at)) {
    try {
      return realpathSync(join(at, 'node_modules', name));
    } catch {
      if (at === dirname(at)) return undefined;
    }
  }
}

/** The folder of a peer that was linked for this very package, not of one that merely lies about in the workspace. */
function peerOf(name: string, folder: string): string | undefined {
  const beside = folder.slice(0, folder.lastIndexOf('node_modules') + 'node_modules'.length);
  const linked = join(beside, name);
  return folder.includes('node_modules') && existsSync(linked) ? realpathSync(linked) : undefined;
}

test('what is installed for it, and for that in turn, holds no database client and no web framework', () => {
  const seen = new Map<string, string>();
  const missing: string[] = [];
  const visit = (folder: string) => {
    const { dependencies = {}, optionalDependencies = {}, peerDependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
    const go = (name: string, found: string | undefined) => {
      if (found === undefined || seen.has(found)) return;
      seen.set(found, name);
      visit(found);
    };
    for (const name of Object.keys(dependencies)) {
      const found = folderOf(name, folder);
      if (found === undefined) missing.push(name);
      go(name, found);
    }
    for (const name of Object.keys(optionalDependencies)) go(name, folderOf(name, folder));
    for (const name of Object.keys(peerDependencies)) go(name, peerOf(name, folder));
  };
  visit(fileURLToPath(new URL('..', import.meta.url)));
  const names = [...seen.values()];
  expect(missing).toEqual([]);
  expect(names).toEqual(expect.arrayContaining(['bullmq', 'ioredis', '@onward/workflow-graph']));
  expect(names.filter((name) => FORBIDDEN.test(name))).toEqual([]);
});
