/**
 * What the terminal shows of many processes: everything goes to files, only what a person should see to the screen.
 *
 * A process's line is shown when it is not JSON (it was written for people) or is a JSON log line of level warn or worse
 * (pino: 40 and up). With `isVerbose` everything is shown.
 */
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { join } from 'node:path';
import type { Log } from './log.js';

export type TerminalLog = {
  /** For people, as it is. */
  readonly say: Log;
  /** The output of one process: to `<folder>/<name>.log`, and the part that matters to the screen. */
  of(name: string): Log;
  close(): Promise<void>;
};

const WARN = 40;

export function createTerminalLog(folder: string, isVerbose: boolean): TerminalLog {
  mkdirSync(folder, { recursive: true });
  const files: WriteStream[] = [];
  const say: Log = (line) => process.stdout.write(`${line}\n`);
  return {
    say,
    of: (name) => {
      const file = createWriteStream(join(folder, `${name}.log`), { flags: 'w', mode: 0o600 });
      files.push(file);
      return (line) => {
        file.write(`${line}\n`);
        const shown = isVerbose ? line : pickForPeople(line);
        if (shown !== undefined) say(`[${name}] ${shown}`);
      };
    },
    close: async () => {
      await Promise.all(files.map((file) => new Promise<void>((resolve) => file.end(resolve))));
    },
  };
}

function pickForPeople(line: string): string | undefined {
  if (!line.startsWith('{')) return line;
  try {
    const { level, msg, err } = JSON.parse(line) as { level?: unknown; msg?: unknown; err?: { message?: unknown } };
    if (typeof level !== 'number') return line;
    return level >= WARN ? [msg, err?.message].filter((part) => typeof part === 'string').join(': ') : undefined;
  } catch {
    return line;
  }
}
