/** What the workspace holds: its packages and the files written by hand. Paths are relative to the root, with forward slashes. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const MADE = new Set(['node_modules', 'dist', 'coverage', '.git', '.onward', '.turbo']);

/** Every package as `{ folder, manifest }`, in alphabetical order. */
export function findPackages(root) {
  return ['apps', 'packages']
    .flatMap((group) => readdirSync(join(root, group)).map((name) => `${group}/${name}`))
    .filter((folder) => existsSync(join(root, folder, 'package.json')))
    .sort()
    .map((folder) => ({ folder, manifest: JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) }));
}

/** Every file and folder below `folder` that is not made by a tool, as `{ path, isFolder }`. */
export function walk(root, folder = '') {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (MADE.has(entry.name) || entry.isSymbolicLink()) return [];
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    return [{ path, isFolder: entry.isDirectory() }, ...(entry.isDirectory() ? walk(root, path) : [])];
  });
}

/** TypeScript files of a package's part (`src` or `test`); none when there is no such part. */
export function findSources(root, folder, part) {
  if (!existsSync(join(root, folder, part))) return [];
  return walk(root, `${folder}/${part}`).flatMap(({ path, isFolder }) => (!isFolder && /\.tsx?$/.test(path) ? [path] : []));
}
