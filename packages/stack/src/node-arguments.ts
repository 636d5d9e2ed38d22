/**
 * How Node runs Onward's processes. Left to itself it lets garbage lie for as long as the machine has memory: with these a burst takes a third less of it, at
 * no cost in CPU that could be measured (docs/decisions/0012). Young garbage is collected by the thread that made it: four helpers on two cores wait for
 * each other more than they help (docs/decisions/0014). The `start` scripts of the processes say the same.
 */
export const NODE_ARGUMENTS = ['--enable-source-maps', '--max-semi-space-size=16', '--heap-growing-percent=100', '--no-parallel-scavenge'] as const;
