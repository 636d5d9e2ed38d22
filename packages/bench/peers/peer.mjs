/**
 * One peer in a process of its own. `node peer.mjs <engine> <variant>`; over the IPC channel it says `ready`, takes `{ command: 'burst', runs }` and answers
 * `{ kind: 'done', seconds, cpuSeconds }`: from the first run started to the last one ended, its ten steps durable where the engine has durable steps;
 * CPU of this process alone. Runs are started in this process, as users of these libraries do.
 *
 * `{ command: 'trickle', runs, everyMs }` starts them one by one and answers `{ kind: 'done', tookMs }`: from each start to its first step.
 *
 * Each engine's file exports `start({ variant, postgresUrl, valkeyUrl, onFirstStep, onRunEnded })`, which answers `{ startRuns(ids), close() }`; `onFirstStep(id)` is
 * called where the engine is asked for a trickle. The files named
 * `limit-…` are no engines: a run is one operation of a part that we stand on; `prepareRuns(ids)`, where there is one, is done before the clock runs,
 * asked for by `{ command: 'prepare', runs }` and answered by `prepared`.
 */
const [engine, variant] = process.argv.slice(2);
const { postgresUrl, valkeyUrl } = JSON.parse(process.env.BENCH_SERVERS);
const { start } = await import(`./${engine}.mjs`);

let left = 0;
let allEnded = () => {};
let born = 0;
let onFirstStep = () => {};
const peer = await start({
  variant,
  postgresUrl,
  valkeyUrl,
  onFirstStep: (id) => onFirstStep(id),
  onRunEnded() {
    left -= 1;
    if (left === 0) allEnded();
  },
});

process.on('message', (message) => void obey(message));

async function obey({ command, runs, everyMs }) {
  if (command === 'stop') {
    setTimeout(() => process.exit(0), 3_000);
    await peer.close();
    process.exit(0);
  }
  if (command === 'prepare') {
    await peer.prepareRuns?.(nameRuns(runs));
    process.send({ kind: 'prepared' });
    return;
  }
  if (command === 'trickle') {
    process.send({ kind: 'done', tookMs: await trickle(nameRuns(runs), everyMs) });
    return;
  }
  left = runs;
  const ended = new Promise((resolve) => {
    allEnded = resolve;
  });
  const ids = nameRuns(runs);
  const before = process.cpuUsage();
  const startedAt = performance.now();
  await Promise.all([peer.startRuns(ids), ended]);
  const seconds = (performance.now() - startedAt) / 1_000;
  const { user, system } = process.cpuUsage(before);
  process.send({ kind: 'done', seconds, cpuSeconds: (user + system) / 1_000_000 });
}

async function trickle(ids, everyMs) {
  const tookMs = [];
  for (const id of ids) {
    left = 1;
    const ended = new Promise((resolve) => {
      allEnded = resolve;
    });
    const startedAt = performance.now();
    onFirstStep = (of) => {
      if (of === id) tookMs.push(performance.now() - startedAt);
    };
    await Promise.all([peer.startRuns([id]), ended, new Promise((resolve) => setTimeout(resolve, everyMs))]);
  }
  return tookMs;
}

function nameRuns(count) {
  return Array.from({ length: count }, () => {
    born += 1;
    return `r${process.pid}-${born}`;
  });
}

process.on('disconnect', () => process.exit(0));
process.send({ kind: 'ready' });
