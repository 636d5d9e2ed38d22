/**
 * How Node runs Onward's processes. Left to itself it lets garbage lie for as long as the machine has memory: with these a burst takes a third less of it, at
 * no cost in CPU that could be measured (docs/decisions/0012). The `start` scripts of the processes say the same.
 */
export const NODE_ARGUMENTS = ['--enable-source-maps', '--max-semi-space-size=16', '--heap-growing-percent=100'] as const;
