/**
 * Import laws: who may import whom (.dependency-cruiser.mjs), and what must not even be in the dependency tree of worker and gateway.
 *
 * A cruise that sees nothing finds nothing wrong, so what it saw is compared, file by file, with a plain look at the text: every source
 * is a module of the cruise and every specifier written in it is one of its dependencies.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { findForbiddenDependencies } from './dependency-trees.mjs';
import { findPackages, findSources } from './workspace.mjs';

const ENOUGH = { modules: 300, dependencies: 1_000 };
/** `import … from '…'`, `export … from '…'` and `import '…'` as biome writes them: at the start of a line, the end maybe further down. */
const SPECIFIER = /^(?:import|export)\s(?:[^'"`;]*?\sfrom\s)?'([^']+)'/gm;

export async function checkImportLaws(root) {
  const { default: config, ARROWS } = await import(pathToFileURL(join(root, '.dependency-cruiser.mjs')).href);
  const packages = findPackages(root);
  const cruise = await loadCruiser();
  const { forbidden, options } = config;
  const folders = packages.flatMap(({ folder }) =>
    ['src', 'test'].filter((part) => findSources(root, folder, part).length > 0).map((part) => `${folder}/${part}`),
  );
  const { output } = await cruise(folders, { ...options, baseDir: root, validate: true, ruleSet: { forbidden } });
  const comments = Object.fromEntries(forbidden.map(({ name, comment }) => [name, comment]));

  const findings = [
    ...output.summary.violations.map(({ rule, from, to, cycle }) => ({
      rule: rule.name,
      file: from,
      message: `${cycle === undefined ? `imports ${shorten(to)}` : `goes round: ${cycle.map(({ name }) => name).join(' → ')}`}. ${comments[rule.name]}`,
    })),
    ...packages
      .filter(({ folder }) => ARROWS[folder] === undefined)
      .map(({ folder }) => ({ rule: 'arrows', file: `${folder}/package.json`, message: 'has no entry in ARROWS of .dependency-cruiser.mjs' })),
    ...findBlindSpots(root, packages, output.modules),
    ...findForbiddenDependencies(root),
  ];
  const { totalCruised: modules, totalDependenciesCruised: dependencies } = output.summary;
  if (modules < ENOUGH.modules || dependencies < ENOUGH.dependencies) {
    findings.push({ rule: 'blind', message: `only ${modules} modules and ${dependencies} dependencies were seen` });
  }
  return { findings, seen: `${modules} modules, ${dependencies} imports, ${forbidden.length} laws` };
}

/** The cruiser reads TypeScript through swc, but forgets to say that a .tsx file holds JSX; it must be told before it loads swc. */
async function loadCruiser() {
  const require = createRequire(import.meta.url);
  const swc = require('@swc/core');
  const { parseFileSync } = swc;
  swc.parseFileSync = (file, options) => parseFileSync(file, { ...options, tsx: file.endsWith('.tsx') });
  const { cruise } = await import('dependency-cruiser');
  return cruise;
}

function findBlindSpots(root, packages, modules) {
  const seen = new Map(modules.map(({ source, dependencies }) => [source, new Set(dependencies.map(({ module }) => withoutScheme(module)))]));
  return packages
    .flatMap(({ folder }) => ['src', 'test'].flatMap((part) => findSources(root, folder, part)))
    .flatMap((file) => {
      const dependencies = seen.get(file);
      if (dependencies === undefined) return [{ rule: 'blind', file, message: 'the cruiser did not see this file' }];
      const written = [...readFileSync(join(root, file), 'utf8').matchAll(SPECIFIER)].map(([, specifier]) => specifier);
      return written
        .filter((specifier) => !dependencies.has(withoutScheme(specifier)))
        .map((specifier) => ({ rule: 'blind', file, message: `the cruiser did not see the import of ${specifier}` }));
    });
}

const withoutScheme = (specifier) => specifier.replace(/^node:/, '');
const shorten = (path) => path.replace(/^.*node_modules\//, '');
