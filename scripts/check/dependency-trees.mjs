/**
 * What worker and gateway must not even carry: a database driver or a web framework, however deep. Walks what is installed, from each
 * package.json along dependencies, optional ones and those peers that are there, to the folder each name really leads to.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';

const FORBIDDEN = {
  'packages/automation-worker': [/^pg$/, /^pg-/, /^typeorm$/, /^express$/, /^fastify$/, /^@nestjs\//],
  'packages/mail-gateway': [/^pg$/, /^pg-/, /^typeorm$/, /^express$/, /^fastify$/, /^@nestjs\//, /^undici$/],
};

export function findForbiddenDependencies(root) {
  return Object.entries(FORBIDDEN).flatMap(([folder, patterns]) => {
    const findings = [];
    walkTree(realpathSync(join(root, folder)), [folder], new Set(), (name, chain) => {
      const isForbidden = patterns.some((pattern) => pattern.test(name));
      if (isForbidden) findings.push({ rule: 'dependency-tree', file: `${folder}/package.json`, message: `carries ${name}: ${chain.join(' → ')}` });
      return !isForbidden;
    });
    return findings;
  });
}

/** `isFine` is asked about each package once, with the way to it; beyond one that is not the walk does not go on. */
function walkTree(folder, chain, visited, isFine) {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const optional = { ...manifest.optionalDependencies, ...manifest.peerDependencies };
  for (const name of Object.keys({ ...manifest.dependencies, ...optional })) {
    const found = findInstalled(folder, name);
    if (found === undefined) {
      if (name in optional) continue;
      throw new Error(`${name}, wanted by ${chain.join(' → ')}, is not installed`);
    }
    if (visited.has(found)) continue;
    visited.add(found);
    if (isFine(name, [...chain, name])) walkTree(found, [...chain, name], visited, isFine);
  }
}

/** Its own node_modules, then those of the folders above, up to the one pnpm put it in: beyond that lies what others asked for. */
function findInstalled(folder, name) {
  for (let place = folder; ; place = dirname(place)) {
    const candidate = place.endsWith('node_modules') ? join(place, name) : join(place, 'node_modules', name);
    if (existsSync(join(candidate, 'package.json'))) return realpathSync(candidate);
    if (place.endsWith('node_modules') || existsSync(join(place, 'pnpm-workspace.yaml')) || dirname(place) === place) return undefined;
  }
}
