import type { Context } from 'liquidjs';
import { TemplateError } from './template-error.js';

/** Turns of loops, branches taken and parts filled of one filling: room for 5,000 rows of ten parts. A step takes 1 to 5 µs. */
export const MAX_STEPS = 60_000;
/** A net under steps that are each long, in ms of CPU time of the process; above what honest steps take, so that no slow machine fails them. */
const MAX_CPU_MS = 500;
const SHORTEST_LOOK_MS = 10;

/**
 * Bounds the work of one filling, which holds up everything else the process does. The count of steps is the bound that counts: the same
 * template and values always end alike, on any machine. Time is only the net, and is looked at as CPU time, so that a process that was
 * stopped for a while does not fail a template. What a single filter makes is bounded by the engine's memory limit.
 * The engine calls `check` at every step, with the time in ms of performance.now(); from then on it throws TemplateError past a bound.
 */
export function limitWork(context: Context): void {
  const before = process.cpuUsage();
  let steps = 0;
  let nextLookMs = performance.now() + MAX_CPU_MS;
  context.renderLimit.check = (nowMs) => {
    steps += 1;
    if (steps > MAX_STEPS) throw new TemplateError(`The template takes more than ${MAX_STEPS.toLocaleString('en')} steps to fill`);
    if (nowMs < nextLookMs) return;
    const { user, system } = process.cpuUsage(before);
    const leftMs = MAX_CPU_MS - (user + system) / 1_000;
    if (leftMs <= 0) throw new TemplateError('The template takes too long to fill');
    nextLookMs = nowMs + Math.max(leftMs, SHORTEST_LOOK_MS);
  };
}
