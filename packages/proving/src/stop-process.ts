import type { Installation } from './installation.js';

/** How a process ended that was asked to. `how` is what the supervisor said of it: `exited with code 0`, `was ended by SIGKILL`. */
export type Stopped = { tookMs: number; how: string };

/** SIGTERM to a process, until it has ended; the supervisor then starts it again. */
export async function stopProcess({ process, lines, until }: Installation, name: string): Promise<Stopped> {
  const one = process(name);
  const pid = one.pid();
  const heard = lines.length;
  const askedAtMs = performance.now();
  one.kill('SIGTERM');
  await until(`${name} has ended`, async () => one.pid() !== pid, 60_000);
  const tookMs = Math.round(performance.now() - askedAtMs);
  await until(`${name} runs again`, async () => one.pid() !== undefined, 60_000);
  const how = lines.slice(heard).find((line) => line.startsWith(`${name}: `) && line.includes('; starting again'));
  return { tookMs, how: how?.slice(name.length + 2).split(';')[0] ?? '' };
}
