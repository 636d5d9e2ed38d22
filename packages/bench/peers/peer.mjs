/**
 * One peer in a process of its own. `node peer.mjs <engine> <variant>`; over the IPC channel it says `ready`, takes `{ command: 'burst', runs }` and answers
 * `{ kind: 'done', seconds }`: from the first run started to the last one ended, its ten steps durable where the engine has durable steps.
 * Runs are started in this process, as users of these libraries do.
 *
 * Each engine's file exports `start({ variant, postgresUrl, valkeyUrl, onRunEnded })`, which answers `{ startRuns(ids), close() }`.
 */
const [engine, variant] = process.argv.slice(2);
const { postgresUrl, valkeyUrl } = JSON.parse(process.env.BENCH_SERVERS);
const { start } = await import(`./${engine}.mjs`);

let left = 0;
let allEnded = () => {};
let born = 0;
const peer = await start({
  variant,
  postgresUrl,
  valkeyUrl,
  onRunEnded() {
    left -= 1;
    if (left === 0) allEnded();
  },
});

process.on('message', (message) => void obey(message));

async function obey({ command, runs }) {
  if (command === 'stop') {
    setTimeout(() => process.exit(0), 3_000);
    await peer.close();
    process.exit(0);
  }
  left = runs;
  const ended = new Promise((resolve) => {
    allEnded = resolve;
  });
  const ids = Array.from({ length: runs }, () => {
    born += 1;
    return `r${process.pid}-${born}`;
  });
  const startedAt = performance.now();
  await Promise.all([peer.startRuns(ids), ended]);
  process.send({ kind: 'done', seconds: (performance.now() - startedAt) / 1_000 });
}

process.on('disconnect', () => process.exit(0));
process.send({ kind: 'ready' });
