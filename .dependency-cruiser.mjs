/**
 * The import laws, for dependency-cruiser: who may import whom. `pnpm check` runs them (scripts/check/import-laws.mjs), beside the laws
 * about names and sizes that no import shows (scripts/check/source-laws.mjs).
 *
 * The parser is swc, because TypeScript 7 offers none: without it the cruiser sees no module at all and finds nothing wrong. To it a
 * type-only import is an import like any other, so the laws, the one against cycles included, hold for types too. Packages of the
 * workspace are seen as the built files of their exports map.
 */

/** Which packages of ours, and which of npm where that is limited, the sources of a package may import. A package without an entry is a breach. */
export const ARROWS = {
  'apps/backend': { ours: ['contracts', 'wire', 'workflow-graph', 'egress'] },
  'apps/console': { ours: [] },
  'packages/contracts': { ours: [], npm: ['zod'] },
  'packages/workflow-graph': { ours: ['contracts'], npm: ['zod', 'temporal-polyfill'] },
  'packages/egress': { ours: [], npm: ['undici'] },
  'packages/wire': { ours: ['contracts'], npm: [] },
  'packages/automation-worker': { ours: ['contracts', 'wire', 'egress', 'workflow-graph'] },
  'packages/mail-gateway': { ours: ['contracts', 'wire'] },
  'packages/stack': { ours: [] },
  'packages/bench': { ours: ['contracts', 'wire', 'workflow-graph', 'egress', 'stack'] },
  'packages/proving': { ours: ['contracts', 'wire', 'workflow-graph', 'egress', 'stack'] },
};

/** What serves people or moves runs; the rest starts, measures or breaks it. */
const PRODUCTION = '^(apps/backend|packages/(contracts|workflow-graph|egress|wire|automation-worker|mail-gateway))/src/';

/** The one file of each process that knows the queue. */
const QUEUE_FILES = ['apps/backend/src/operations/queues', 'packages/automation-worker/src/wake-ups', 'packages/mail-gateway/src/mail-queue'];

/** Where a socket is opened or listened on: the frames' server and client. HTTP goes out through egress alone. */
const SOCKET_FILES = ['apps/backend/src/runtime/rpc-server', 'packages/wire/src/connection', 'packages/wire/src/wait-for-port'];

const npmPackages = (names) => `node_modules/(${names.join('|')})/`;
const exactly = (files) => `^(${files.join('|')})\\.ts$`;

const law = (name, from, to, comment) => ({ name, severity: 'error', comment, from, to });

const arrows = Object.entries(ARROWS).flatMap(([folder, { ours, npm }]) => {
  const short = folder.split('/')[1];
  const sources = { path: `^${folder}/src/` };
  const strangers = ours.length === 0 ? `^packages/(?!${short}/)` : `^packages/(?!(${[short, ...ours].join('|')})/)`;
  return [
    law(`arrows-of-${short}`, sources, { path: [strangers, `^apps/(?!${short}/)`] }, `${folder} may import ${ours.join(', ') || 'nothing'} of ours`),
    ...(npm === undefined
      ? []
      : [
          law(
            `npm-of-${short}`,
            sources,
            { path: 'node_modules/', ...(npm.length === 0 ? {} : { pathNot: npmPackages(npm) }) },
            `${folder} may import ${npm.join(', ') || 'nothing'} from npm`,
          ),
        ]),
  ];
});

export default {
  forbidden: [
    ...arrows,
    law('no-cycle', {}, { circular: true }, 'Files that import each other cannot be understood one by one'),
    law('resolvable', {}, { couldNotResolve: true }, 'What cannot be found cannot be judged; is everything built?'),
    law(
      'exports-map-only',
      { path: '^(?:apps|packages)/([^/]+)/' },
      { path: '^(apps|packages)/[^/]+/(src|test)/', pathNot: '^(apps|packages)/$1/' },
      'Across packages only what the exports map names',
    ),
    law('no-test-in-source', { path: '/src/' }, { path: '^(apps|packages)/[^/]+/test/' }, 'Sources do not know their tests'),
    law('no-dev-dependency', { path: PRODUCTION }, { dependencyTypes: ['npm-dev'] }, 'What production imports is a dependency of production'),
    law('no-stack-in-production', { path: PRODUCTION }, { path: '^packages/stack/' }, 'The embedded servers are for starting and testing'),
    law(
      'worker-judges-only',
      { path: '^packages/automation-worker/src/' },
      { path: '^packages/workflow-graph/', pathNot: '^packages/workflow-graph/(dist|src)/judge\\.' },
      'The backend decides where a run goes; the worker only names the verb',
    ),
    law('actions-not-runs', { path: '^apps/backend/src/actions/' }, { path: '^apps/backend/src/runs/' }, 'runtime joins actions and runs'),
    law('runs-not-actions', { path: '^apps/backend/src/runs/' }, { path: '^apps/backend/src/actions/' }, 'runtime joins actions and runs'),
    law(
      'events-stand-alone',
      { path: '^apps/backend/src/events/' },
      { path: '^(apps|packages)/', pathNot: '^(apps/backend/src/(events|database)|packages/contracts)/' },
      'Whoever wants an event comes to the bus; the bus knows nobody',
    ),
    law(
      'model-client-in-creative-actions',
      { path: PRODUCTION, pathNot: '^apps/backend/src/actions/(generate|score)-creative/' },
      { path: npmPackages(['openai', 'ai', '@ai-sdk/[^/]+']) },
      'Only the two creative actions talk to a model',
    ),
    law('one-queue-file', { path: PRODUCTION, pathNot: exactly(QUEUE_FILES) }, { path: npmPackages(['bullmq']) }, 'One file per process knows BullMQ'),
    law(
      'one-way-out',
      { path: PRODUCTION, pathNot: [exactly(SOCKET_FILES), '^packages/egress/src/'] },
      { path: ['^(node:)?(http|https|http2|net|tls|dgram)$', npmPackages(['undici', 'axios', 'got', 'node-fetch', 'ws'])] },
      'Only egress opens a connection to the outside',
    ),
  ],
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    // Never `exclude` by a loose `dist/`: it drops every npm package that is built into a folder of that name.
    doNotFollow: { path: ['node_modules/', '^(apps|packages)/[^/]+/dist/'] },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['types', 'import', 'default'] },
  },
};
