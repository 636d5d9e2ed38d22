/**
 * Measures named groups of process trees while `work` is done: wall time, CPU seconds, and the highest memory seen every half second.
 *
 * A child that ends meanwhile stays counted through its parent, which waits for it; a root that dies and is replaced does not, so work
 * with kills is not measured this way. Throws what `work` throws.
 */
import { cpuSecondsOf, pssOf } from './proc.js';

export type Measured<Name extends string> = {
  seconds: number;
  cpuSeconds: Record<Name, number>;
  cpuSecondsOfAll: number;
  /** The highest proportional set size of the groups in `memoryOf` together, in bytes. */
  peakBytes: number;
};
export type MeterPlan<Name extends string> = {
  roots: Readonly<Record<Name, readonly number[]>>;
  /** Looking at memory walks page tables, so only the groups asked for are looked at. */
  memoryOf: readonly NoInfer<Name>[];
};

const MEMORY_EVERY_MS = 500;

export async function measure<Name extends string>({ roots, memoryOf }: MeterPlan<Name>, work: () => Promise<void>): Promise<Measured<Name>> {
  const names = Object.keys(roots) as Name[];
  const readCpu = () => Object.fromEntries(names.map((name) => [name, cpuSecondsOf(roots[name])])) as Record<Name, number>;
  const readMemory = () => pssOf(memoryOf.flatMap((name) => [...roots[name]]));
  let peakBytes = readMemory();
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, readMemory());
  }, MEMORY_EVERY_MS);
  try {
    const before = readCpu();
    const startedAt = performance.now();
    await work();
    const seconds = (performance.now() - startedAt) / 1_000;
    const after = readCpu();
    const cpuSeconds = Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as Record<Name, number>;
    return {
      seconds,
      cpuSeconds,
      cpuSecondsOfAll: names.reduce((sum, name) => sum + cpuSeconds[name], 0),
      peakBytes: Math.max(peakBytes, readMemory()),
    };
  } finally {
    clearInterval(timer);
  }
}
