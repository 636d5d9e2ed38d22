/**
 * Tells one process from another that later got the same pid.
 *
 * A pid alone is no identity: after a crash or a reboot it may belong to somebody else, and ending it would end a
 * stranger. The moment of birth, taken from the kernel, makes it one. A zombie counts as gone: it holds nothing any more.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A text that is the same as long as `pid` is the same living process; undefined when there is no such process. */
export function birthOf(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  return process.platform === 'linux' ? birthFromProc(pid) : birthFromPs(pid);
}

function birthFromProc(pid: number): string | undefined {
  try {
    // proc(5): field 2 is the command in parentheses and may hold anything, so fields are counted after the last ')'.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startTicks] = [fields[0], fields[19]];
    if (startTicks === undefined || state === 'Z' || state === 'X') return undefined;
    return `${bootId()}/${startTicks}`;
  } catch {
    return undefined;
  }
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}

function birthFromPs(pid: number): string | undefined {
  try {
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
    return line === '' || line.startsWith('Z') ? undefined : line.slice(line.indexOf(' ') + 1).trim();
  } catch {
    return undefined;
  }
}
