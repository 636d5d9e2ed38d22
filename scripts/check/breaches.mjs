/**
 * One breach for each law, to prove that the check finds it: what to plant, and the rule (and file, `at`, or words, `says`) that must
 * be told. Paths are those of the checkout; each breach has files of its own, so that many can be planted at once.
 */
const exporting = (text) => `${text}\nexport const planted = 1;\n`;

/** A file that does nothing but import (for its types too) what it may not. */
const importBreach = (law, rule, at, specifier, more = {}) => ({ law, rule, at, ...more, write: { [at]: exporting(`import '${specifier}';`), ...more.write } });

const lintBreach = (law, rule, name, text, folder = 'packages/egress/src') => ({
  law,
  rule,
  at: `${folder}/planted-${name}.ts`,
  write: { [`${folder}/planted-${name}.ts`]: text },
});

/** A package that is installed nowhere, put where `folder` would find it. */
const fakePackage = (folder, name, manifest = {}) => ({
  [`${folder}/node_modules/${name}/package.json`]: JSON.stringify({ name, version: '1.0.0', main: 'main.js', ...manifest }),
  [`${folder}/node_modules/${name}/main.js`]: 'module.exports = {};\n',
});

const SLEEP = "import { setTimeout as sleep } from 'node:timers/promises';\n";

export const BREACHES = {
  types: [
    {
      law: 'a value has its type',
      rule: 'TS2322',
      at: 'packages/egress/src/planted-type.ts',
      write: { 'packages/egress/src/planted-type.ts': "export const planted: number = 'text';\n" },
    },
    {
      law: 'tests are checked as well',
      rule: 'TS2322',
      at: 'packages/wire/test/planted-type.ts',
      write: { 'packages/wire/test/planted-type.ts': "export const planted: number = 'text';\n" },
    },
    {
      law: 'every package is checked',
      alone: true,
      rule: 'typecheck-script',
      at: 'packages/planted/package.json',
      write: { 'packages/planted/package.json': '{ "name": "@onward/planted", "version": "0.1.0", "private": true }\n' },
    },
  ],

  lint: [
    lintBreach('a promise is awaited', 'typescript(no-floating-promises)', 'floating', `${SLEEP}export function planted(): void {\n  sleep(1);\n}\n`),
    lintBreach(
      'a promise is not given where nobody waits',
      'typescript(no-misused-promises)',
      'misused',
      `${SLEEP}[1].forEach(async () => {\n  await sleep(1);\n});\n`,
    ),
    lintBreach('only promises are awaited', 'typescript(await-thenable)', 'thenable', 'export async function planted(): Promise<void> {\n  await 1;\n}\n'),
    lintBreach('no any', 'typescript(no-explicit-any)', 'any', 'export const planted: any = 1;\n'),
    lintBreach('no any by the back door', 'typescript(no-unsafe-member-access)', 'unsafe', "export const planted: unknown = JSON.parse('{}').name;\n"),
    lintBreach('no ts-ignore', 'typescript(ban-ts-comment)', 'ignore', '// @ts-ignore\nexport const planted = 1;\n'),
    lintBreach(
      'a switch is exhaustive',
      'typescript(switch-exhaustiveness-check)',
      'switch',
      "export function planted(x: 'a' | 'b'): number {\n  switch (x) {\n    case 'a':\n      return 1;\n  }\n  return 2;\n}\n",
    ),
    lintBreach('nothing is declared in vain', 'eslint(no-unused-vars)', 'unused', 'const planted = 1;\n'),
    lintBreach('sources do not write to the console', 'eslint(no-console)', 'console', "console.log('planted');\n"),
    lintBreach('no eval', 'eslint(no-eval)', 'eval', "export const planted: unknown = (0, eval)('1');\n"),
    lintBreach('no new Function', 'eslint(no-new-func)', 'function', "export const planted = new Function('return 1');\n"),
    lintBreach('no code in a timer', 'typescript(no-implied-eval)', 'implied', "setTimeout('code', 1);\n"),
    lintBreach('no node:vm', 'eslint(no-restricted-imports)', 'vm', "import vm from 'node:vm';\nexport const planted = vm;\n"),
    lintBreach(
      'no forwardRef',
      'eslint(no-restricted-imports)',
      'forward-ref',
      "import { forwardRef } from '@nestjs/common';\nexport const planted = forwardRef;\n",
      'apps/backend/src/runs',
    ),
    lintBreach(
      'no hand-made require',
      'eslint(no-restricted-imports)',
      'require',
      "import { createRequire } from 'node:module';\nexport const planted = createRequire(import.meta.url);\n",
    ),
    lintBreach(
      'createQueryRunner only in database/',
      'eslint(no-restricted-properties)',
      'runner',
      'export const planted = (source: { createQueryRunner(): unknown }) => source.createQueryRunner();\n',
      'apps/backend/src/runs',
    ),
    lintBreach('the environment is read in one place', 'node(no-process-env)', 'env', "export const planted = process.env['HOME'];\n"),
    lintBreach('also when it is taken apart', 'eslint(no-restricted-properties)', 'env-apart', 'const { env } = process;\nexport const planted = env;\n'),
    lintBreach('also through an import', 'eslint(no-restricted-imports)', 'env-import', "import { env } from 'node:process';\nexport const planted = env;\n"),
    lintBreach(
      'fetch goes through egress',
      'eslint(no-restricted-globals)',
      'fetch',
      "export const planted = fetch('https://example.org');\n",
      'apps/backend/src/runs',
    ),
    lintBreach(
      'no test alone',
      'vitest(no-focused-tests)',
      'only',
      "import { test } from 'vitest';\ntest.only('planted', () => undefined);\n",
      'packages/egress/test',
    ),
    lintBreach(
      'no test left out',
      'vitest(no-disabled-tests)',
      'skip',
      "import { test } from 'vitest';\ntest.skip('planted', () => undefined);\n",
      'packages/egress/test',
    ),
  ],

  format: [
    {
      law: 'files are as biome writes them',
      rule: 'format',
      at: 'packages/egress/src/planted.ts',
      write: { 'packages/egress/src/planted.ts': 'export const  planted = "1"\n' },
    },
    { law: 'configuration as well', rule: 'format', at: 'packages/egress/planted.json', write: { 'packages/egress/planted.json': '{"planted":\n1}' } },
  ],

  'import-laws': [
    importBreach('contracts imports nothing of ours', 'arrows-of-contracts', 'packages/contracts/src/planted-ours.ts', '@onward/wire/codec', {
      link: { 'packages/contracts/node_modules/@onward/wire': 'packages/wire' },
    }),
    importBreach('contracts imports zod only', 'npm-of-contracts', 'packages/contracts/src/planted-npm.ts', 'planted', {
      write: fakePackage('packages/contracts', 'planted'),
    }),
    importBreach(
      'workflow-graph imports contracts of ours only',
      'arrows-of-workflow-graph',
      'packages/workflow-graph/src/planted-ours.ts',
      '@onward/wire/codec',
      {
        link: { 'packages/workflow-graph/node_modules/@onward/wire': 'packages/wire' },
      },
    ),
    importBreach('workflow-graph imports zod and temporal-polyfill only', 'npm-of-workflow-graph', 'packages/workflow-graph/src/planted-npm.ts', 'fast-check'),
    importBreach('egress imports nothing of ours', 'arrows-of-egress', 'packages/egress/src/planted-ours.ts', '@onward/contracts/errors', {
      link: { 'packages/egress/node_modules/@onward/contracts': 'packages/contracts' },
    }),
    importBreach('egress imports undici only', 'npm-of-egress', 'packages/egress/src/planted-npm.ts', 'vitest'),
    importBreach('wire imports contracts of ours only', 'arrows-of-wire', 'packages/wire/src/planted-ours.ts', '@onward/egress/allow-list', {
      link: { 'packages/wire/node_modules/@onward/egress': 'packages/egress' },
    }),
    importBreach('wire imports nothing from npm', 'npm-of-wire', 'packages/wire/src/planted-npm.ts', 'vitest'),
    importBreach(
      'the worker imports contracts, wire, egress and workflow-graph',
      'arrows-of-automation-worker',
      'packages/automation-worker/src/planted-ours.ts',
      '@onward/stack/free-port',
    ),
    importBreach(
      'of workflow-graph the worker imports judge only',
      'worker-judges-only',
      'packages/automation-worker/src/planted-graph.ts',
      '@onward/workflow-graph/interpret',
    ),
    importBreach('the gateway imports contracts and wire', 'arrows-of-mail-gateway', 'packages/mail-gateway/src/planted-ours.ts', '@onward/egress/allow-list', {
      link: { 'packages/mail-gateway/node_modules/@onward/egress': 'packages/egress' },
    }),
    importBreach(
      'the backend imports contracts, wire, workflow-graph and egress',
      'arrows-of-backend',
      'apps/backend/src/planted-ours.ts',
      '@onward/stack/free-port',
    ),
    importBreach('production does not import the stack', 'no-stack-in-production', 'apps/backend/src/planted-stack.ts', '@onward/stack/free-port'),
    importBreach('production does not import a development dependency', 'no-dev-dependency', 'apps/backend/src/planted-dev.ts', '@nestjs/testing'),
    importBreach('the stack imports nothing of ours', 'arrows-of-stack', 'packages/stack/src/planted-ours.ts', '@onward/contracts/errors', {
      link: { 'packages/stack/node_modules/@onward/contracts': 'packages/contracts' },
    }),
    importBreach(
      'the fault suite starts processes, it does not import them',
      'arrows-of-proving',
      'packages/proving/src/planted-ours.ts',
      '../../../apps/backend/src/settings.js',
    ),
    {
      law: 'every package has its arrows',
      rule: 'arrows',
      at: 'packages/planted/package.json',
      write: { 'packages/planted/package.json': '{ "name": "@onward/planted", "version": "0.1.0", "private": true }\n' },
    },
    {
      law: 'no cycle',
      rule: 'no-cycle',
      at: 'packages/wire/src/planted-ring-a.ts',
      write: {
        'packages/wire/src/planted-ring-a.ts': exporting("import './planted-ring-b.js';"),
        'packages/wire/src/planted-ring-b.ts': exporting("import './planted-ring-a.js';"),
      },
    },
    {
      law: 'no cycle of types, nor through a late import',
      rule: 'no-cycle',
      at: 'packages/wire/src/planted-type-ring-a.ts',
      write: {
        'packages/wire/src/planted-type-ring-a.ts': "import type { B } from './planted-type-ring-b.js';\nexport type A = B | 1;\n",
        'packages/wire/src/planted-type-ring-b.ts': "export type B = 2;\nexport const late = (): Promise<unknown> => import('./planted-type-ring-a.js');\n",
      },
    },
    importBreach('actions do not import runs', 'actions-not-runs', 'apps/backend/src/actions/planted.ts', '../runs/run.entity.js'),
    importBreach('runs do not import actions', 'runs-not-actions', 'apps/backend/src/runs/planted.ts', '../actions/action.js'),
    importBreach('events import database and contracts only', 'events-stand-alone', 'apps/backend/src/events/planted.ts', '../contacts/contact.entity.js'),
    importBreach('only creative actions import a model client', 'model-client-in-creative-actions', 'apps/backend/src/actions/planted-model.ts', 'openai', {
      write: fakePackage('apps/backend', 'openai'),
    }),
    importBreach('one file of a process imports bullmq', 'one-queue-file', 'packages/mail-gateway/src/planted-queue.ts', 'bullmq'),
    importBreach('HTTP goes out through egress', 'one-way-out', 'apps/backend/src/runs/planted-http.ts', 'node:https'),
    importBreach('sockets are opened in one place', 'one-way-out', 'packages/wire/src/planted-net.ts', 'node:net'),
    importBreach('undici is for egress', 'one-way-out', 'packages/automation-worker/src/planted-undici.ts', 'undici', {
      link: { 'packages/automation-worker/node_modules/undici': 'packages/egress/node_modules/undici' },
    }),
    importBreach('across packages only what the exports map names', 'exports-map-only', 'packages/wire/src/planted-inside.ts', '../../contracts/src/errors.js'),
    importBreach('sources do not import tests', 'no-test-in-source', 'packages/egress/src/planted-test.ts', '../test/local-target.js'),
    importBreach('what is imported is there', 'resolvable', 'packages/egress/src/planted-nothing.ts', './nothing.js'),
    {
      law: 'the worker does not carry Nest',
      rule: 'dependency-tree',
      at: 'packages/automation-worker/package.json',
      says: 'packages/automation-worker → @nestjs/core',
      edit: { 'packages/automation-worker/package.json': ['"dependencies": {', '"dependencies": { "@nestjs/core": "*",'] },
      link: { 'packages/automation-worker/node_modules/@nestjs/core': 'apps/backend/node_modules/@nestjs/core' },
    },
    {
      law: 'the gateway does not carry a database driver, however deep',
      rule: 'dependency-tree',
      at: 'packages/mail-gateway/package.json',
      says: 'packages/mail-gateway → planted → typeorm',
      edit: { 'packages/mail-gateway/package.json': ['"dependencies": {', '"dependencies": { "planted": "*",'] },
      write: {
        ...fakePackage('packages/mail-gateway', 'planted', { dependencies: { typeorm: '*' } }),
        ...fakePackage('packages/mail-gateway/node_modules/planted', 'typeorm'),
      },
    },
    {
      alone: true,
      law: 'a cruiser that sees no TypeScript is noticed',
      rule: 'blind',
      edit: { '.dependency-cruiser.mjs': ["parser: 'swc'", "parser: 'acorn'"] },
    },
    {
      alone: true,
      law: 'a cruiser that overlooks packages is noticed',
      rule: 'blind',
      says: 'bullmq',
      edit: { '.dependency-cruiser.mjs': ['options: {', "options: { exclude: { path: 'dist/' },"] },
    },
  ],

  'source-laws': [
    ...['utils', 'common', 'helpers', 'shared', 'core', 'lib'].map((name) => ({
      law: `no folder called ${name}`,
      rule: 'no-drawer',
      at: `packages/wire/src/${name}`,
      write: { [`packages/wire/src/${name}/planted.ts`]: exporting('') },
    })),
    { law: 'no index.ts', rule: 'no-index', at: 'packages/wire/src/index.ts', write: { 'packages/wire/src/index.ts': exporting('') } },
    {
      law: 'a long file says why',
      rule: 'long-file-says-why',
      at: 'packages/wire/src/planted-long.ts',
      write: {
        'packages/wire/src/planted-long.ts': `/** Has no reason. */\n${Array.from({ length: 300 }, (_, at) => `export const planted${at} = ${at};\n`).join('')}`,
      },
    },
    {
      law: 'no import in the place of a type',
      rule: 'no-hidden-import',
      at: 'packages/wire/src/planted-hidden.ts',
      write: { 'packages/wire/src/planted-hidden.ts': "export type Planted = { code: import('./codec.js').Planted };\n" },
    },
    {
      law: 'one file of a process reads the environment',
      rule: 'one-environment-reader',
      at: 'apps/backend/src/runs/settings.ts',
      write: { 'apps/backend/src/runs/settings.ts': "export const planted = process.env['HOME'];\n" },
    },
  ],

  'dead-code': [
    {
      law: 'no file that nothing reaches',
      rule: 'unused-file',
      at: 'packages/wire/src/planted-alone.ts',
      write: { 'packages/wire/src/planted-alone.ts': exporting('') },
    },
    {
      law: 'no export that nothing imports',
      rule: 'unused-export',
      at: 'packages/wire/src/patience.ts',
      says: 'planted',
      edit: { 'packages/wire/src/patience.ts': [/$/, 'export const planted = 1;\n'] },
    },
    {
      law: 'no dependency in vain',
      rule: 'unused-dependency',
      at: 'packages/egress/package.json',
      says: 'planted',
      edit: { 'packages/egress/package.json': ['"dependencies": {', '"dependencies": { "planted": "*",'] },
    },
    {
      law: 'what is imported is declared',
      rule: 'undeclared-dependency',
      at: 'packages/wire/test/planted.test.ts',
      write: { 'packages/wire/test/planted.test.ts': "import 'undici';\n" },
    },
  ],

  libraries: [
    {
      law: 'a library is a direct dependency',
      rule: 'library-declared',
      says: 'undici',
      edit: { 'packages/egress/package.json': ['"undici": ', '"planted": '] },
    },
    {
      law: 'a library is imported',
      rule: 'library-imported',
      says: 'typeorm',
      edit: {
        'packages/wire/package.json': ['"dependencies": {', '"dependencies": { "typeorm": "*",'],
        'apps/backend/package.json': ['"typeorm": ', '"planted": '],
      },
    },
  ],

  'schema-drift': [
    {
      law: 'a column of an entity is a column of its table',
      rule: 'entity-drift',
      says: 'email_problem',
      edit: { 'apps/backend/dist/database/migrations/1796000000000-initial.js': [/^\s*email_problem text,$/m, ''] },
    },
    {
      law: 'a column has the type its entity says',
      rule: 'entity-drift',
      says: 'is_transactional',
      edit: {
        'apps/backend/dist/database/migrations/1796000000000-initial.js': [
          'is_transactional boolean NOT NULL DEFAULT false',
          'is_transactional text NOT NULL DEFAULT false',
        ],
      },
      alone: true,
    },
    {
      law: 'a table has an entity',
      rule: 'table-without-entity',
      says: 'planted',
      alone: true,
      edit: {
        'apps/backend/dist/database/migrations/1796000000000-initial.js': [
          'CREATE TABLE lists (',
          'CREATE TABLE planted (id uuid);\n      CREATE TABLE lists (',
        ],
      },
    },
  ],

  openapi: [
    {
      law: 'what is described is what is there',
      rule: 'openapi-drift',
      says: 'is gone',
      edit: { 'docs/openapi.json': ['"/api/v1/contacts"', '"/api/v1/planted"'] },
    },
    {
      law: 'also what beside the operations',
      rule: 'openapi-drift',
      says: 'beside',
      alone: true,
      edit: { 'docs/openapi.json': ['"title": "Onward"', '"title": "Planted"'] },
    },
  ],
};
