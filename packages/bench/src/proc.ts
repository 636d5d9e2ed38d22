/** Reads what Linux says of processes under /proc (proc_pid_stat(5), proc_pid_smaps(5)). */
import { readdirSync, readFileSync } from 'node:fs';

/** USER_HZ, which is 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

export type ProcessStat = { parent: number; cpuSeconds: number };

/** CPU seconds of a process and of its children that have ended and been waited for; the name may hold spaces and brackets. */
export function parseStat(text: string): ProcessStat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0);
  return { parent: Number(fields[1]), cpuSeconds: ticks / TICKS_PER_SECOND };
}

/** The proportional set size of /proc/<pid>/smaps_rollup, in bytes: memory shared by n processes counts a 1/n for each. */
export function parsePss(text: string): number {
  return Number(/^Pss:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024;
}

/** The processes below these roots, the roots among them; those that are gone are left out. */
export function readTree(roots: readonly number[]): Map<number, ProcessStat> {
  const all = new Map<number, ProcessStat>();
  for (const name of readdirSync('/proc')) {
    const text = /^\d+$/.test(name) ? read(`/proc/${name}/stat`) : null;
    if (text !== null) all.set(Number(name), parseStat(text));
  }
  const tree = new Map<number, ProcessStat>();
  const next = [...roots];
  for (let pid = next.pop(); pid !== undefined; pid = next.pop()) {
    const stat = all.get(pid);
    if (stat === undefined || tree.has(pid)) continue;
    tree.set(pid, stat);
    for (const [child, { parent }] of all) if (parent === pid) next.push(child);
  }
  return tree;
}

export function cpuSecondsOf(roots: readonly number[]): number {
  let sum = 0;
  for (const { cpuSeconds } of readTree(roots).values()) sum += cpuSeconds;
  return sum;
}

/** In bytes. */
export function pssOf(roots: readonly number[]): number {
  let sum = 0;
  for (const pid of readTree(roots).keys()) sum += parsePss(read(`/proc/${pid}/smaps_rollup`) ?? '');
  return sum;
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null; // ended in the meantime
  }
}
