/** Libraries in use: those the project is built on are direct dependencies of some package and imported by its own files. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPackages, findSources } from './workspace.mjs';

/** Which part of a package imports it. */
const LIBRARIES = {
  bullmq: 'src',
  ioredis: 'src',
  undici: 'src',
  '@nestjs/core': 'src',
  '@nestjs/microservices': 'src',
  typeorm: 'src',
  pg: 'src',
  vitest: 'test',
};

export async function checkLibraries(root) {
  const packages = findPackages(root);
  const findings = Object.entries(LIBRARIES).flatMap(([library, part]) => {
    const owners = packages.filter(({ manifest }) => manifest[part === 'src' ? 'dependencies' : 'devDependencies']?.[library] !== undefined);
    if (owners.length === 0) return [{ rule: 'library-declared', message: `${library} is no package's direct dependency` }];
    const imports = new RegExp(`^(?:import|export)\\s[^'"]*\\sfrom '${library}(?:/[^']+)?'`, 'm');
    const isUsed = owners.some(({ folder }) => findSources(root, folder, part).some((file) => imports.test(readFileSync(join(root, file), 'utf8'))));
    return isUsed
      ? []
      : [
          {
            rule: 'library-imported',
            message: `${library} is declared by ${owners.map(({ folder }) => folder).join(', ')} and imported by none of their ${part} files`,
          },
        ];
  });
  return { findings, seen: `${Object.keys(LIBRARIES).length} libraries` };
}
