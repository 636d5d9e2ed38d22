/**
 * `npm start`: sets up, then hands over to the stack package, which starts everything and stays until Ctrl+C.
 *
 *   npm start                  with data kept in .onward/
 *   npm start -- --once        on a fresh database of its own, ends by itself
 *   npm start -- --fresh       removes the data of earlier starts first
 *   npm start -- --verbose     shows every line of every process
 */
import { runScript, setUp } from './set-up.mjs';

await runScript(async () => {
  setUp();
  const { startOnward } = await import('../packages/stack/dist/start-onward.js');
  return startOnward(process.argv.slice(2));
});
process.exit();
