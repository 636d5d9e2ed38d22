/** The calls that workers and gateways really make, told apart by what a request carries. */
import { FRAME_PATTERN } from '@onward/contracts/frame';
import type { Packet } from '@onward/wire/signing';

const RUN = 'automation.runtime.run';

/** Of a frame: what is looked for in its text. `automation.runtime.run.succeed` and `attempt.latest` no worker of ours asks for. */
const IN_FRAMES = {
  'a frame that begins runs': '"handOutId"',
  'a frame that renews leases': '"renew":true',
  'a frame that advances runs': `"${RUN}.advance"`,
  'a frame that lays runs to wait': `"${RUN}.wait"`,
  'a frame that tries again later': `"${RUN}.retry"`,
  'a frame that fails runs': `"${RUN}.fail"`,
  'a frame that gives runs up': `"${RUN}.dead-letter"`,
} as const;
const ALONE = ['automation.runtime.plan.get', `${RUN}.notify-failed`, 'mail.message.begin', 'mail.message.end'] as const;

export type Call = keyof typeof IN_FRAMES | (typeof ALONE)[number];
export const CALLS: readonly Call[] = [...(Object.keys(IN_FRAMES) as (keyof typeof IN_FRAMES)[]), ...ALONE];

/** A frame holds runs of several kinds, so it may be several calls at once. */
export function callsIn({ pattern, body }: Pick<Packet, 'pattern' | 'body'>): readonly Call[] {
  if (pattern !== FRAME_PATTERN) return ALONE.filter((call) => call === pattern);
  return (Object.entries(IN_FRAMES) as [keyof typeof IN_FRAMES, string][]).filter(([, mark]) => body.includes(mark)).map(([call]) => call);
}

/** How many runs a frame speaks of; 1 for a call that comes alone. */
export function countRuns({ pattern, body }: Pick<Packet, 'pattern' | 'body'>): number {
  return pattern === FRAME_PATTERN ? (JSON.parse(body) as { runs: unknown[] }).runs.length : 1;
}
