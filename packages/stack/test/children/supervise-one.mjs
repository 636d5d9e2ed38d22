// Supervises one child and says its pid, then stays until it is killed.
// usage: node supervise-one.mjs <runDir> <child script>
import { supervise } from '../../dist/supervisor.js';

const [runDir, script] = process.argv.slice(2);
const child = await supervise({
  name: 'child',
  args: [script],
  env: {},
  cwd: runDir,
  runDir,
  log: () => {},
  onStart: (pid) => process.stdout.write(`${pid}\n`),
});
process.stdin.resume().once('end', () => void child.stop().then(() => process.exit(1))); // whoever started this is gone
