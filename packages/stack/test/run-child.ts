/**
 * Runs a script of test/children in a process of its own and reads its output line by line.
 *
 * The script's input stays open as long as this process lives: one that reads it to its end ends with us, however we end.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export type Child = { readonly process: ChildProcess; nextLine(): Promise<string>; end(signal: NodeJS.Signals): Promise<void> };

export function runChild(
  script: string,
  args: readonly string[],
  { as, env }: { as?: { uid: number; gid: number }; env?: Record<string, string> } = {},
): Child {
  const child = spawn(process.execPath, [childScript(script), ...args], {
    cwd: '/',
    stdio: ['pipe', 'pipe', 'inherit'],
    ...(env === undefined ? {} : { env }),
    ...(as === undefined ? {} : as),
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    process: child,
    nextLine: async () => {
      const { value, done } = await lines.next();
      if (done === true) throw new Error(`${script} ended without another line`);
      return String(value);
    },
    end: async (signal) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await once(child, 'exit');
    },
  };
}

export function childScript(name: string): string {
  return fileURLToPath(new URL(`./children/${name}`, import.meta.url));
}
