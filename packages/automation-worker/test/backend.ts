/**
 * The backend's side of the runtime's calls on real TCP, with the real codec, the real check of the signature and the contracts' own
 * schemas for what it is asked. Unless a test says otherwise it knows runs of one step that the backend performs itself. What it was
 * asked is kept, and `until` resolves when it has been asked something.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { ErrorCode } from '@onward/contracts/errors';
import { FRAME_PATTERN, type Frame, type FrameItem, type Pattern, PATTERNS, type PatternReply } from '@onward/contracts/frame';
import type { ReplyOf, RuntimePattern } from '@onward/contracts/patterns';
import { encodeMessage, MessageReader, parseJson } from '@onward/wire/codec';
import { NonceMemory } from '@onward/wire/nonce-memory';
import { readPacket, verify } from '@onward/wire/signing';

export const SECRET = 'a secret of thirty-two characters';
export const VERSION_ID = '0190c0de-0000-7000-8000-00000000aaaa';

/** An answer, or what happens instead of one. */
export type Doing<R> = { reply: R } | { error: { code: ErrorCode; detail: string } } | 'cut' | 'silent';
/** What one item of a frame, or one call outside of it, is answered. */
export type ItemDoing<P extends RuntimePattern> = { reply: ReplyOf<P> } | { error: { code: ErrorCode; detail: string } };

/** A call as it came: `nth` counts the calls of its pattern, from 1, on whichever connection. */
export type Asked = { pattern: RuntimePattern; data: Record<string, unknown>; nth: number };
/** A frame as it came; `connection` counts connections from 1. */
export type AskedFrame = { frame: Frame; connection: number; patterns: RuntimePattern[]; atMs: number };

type Answerer<P extends RuntimePattern> = (asked: Asked) => ItemDoing<P> | Promise<ItemDoing<P>>;
/** `run.prepare` is here a claim; renewals are answered by `renew`. */
export type Script = { [P in RuntimePattern]?: Answerer<P> } & {
  renew?: Answerer<'automation.runtime.run.prepare'>;
  /** Says what becomes of a whole frame; undefined: its items are answered. */
  frame?: (asked: AskedFrame) => Doing<PatternReply<typeof FRAME_PATTERN>> | undefined | Promise<Doing<PatternReply<typeof FRAME_PATTERN>> | undefined>;
};

export type Backend = {
  host: string;
  port: number;
  secret: string;
  frames: AskedFrame[];
  /** Frames that are no renewals. */
  work(): AskedFrame[];
  /** Every call, in frames and outside, but for renewals. */
  calls: Asked[];
  of(pattern: RuntimePattern): Asked[];
  /** The first frame, past or to come, that fits. */
  untilFrame(fits: (asked: AskedFrame) => boolean): Promise<AskedFrame>;
  /** The first call, past or to come, of that pattern that fits. */
  until(pattern: RuntimePattern, fits?: (asked: Asked) => boolean): Promise<Asked>;
  /** The first renewal to come. */
  nextRenewal(): Promise<AskedFrame>;
  close(): Promise<void>;
};

export const rests = (state: 'succeeded' | 'failed' | 'dead_lettered' | 'waiting' | 'retrying' | 'running' | 'cancelled' = 'succeeded') =>
  ({ reply: { kind: 'rests', state, why: null, dueAt: null } }) as const;
export const refused = (reason: 'stale_epoch' | 'stale_claim' | 'lower_call' | 'unknown_run') => ({ reply: { kind: 'refused', reason } }) as const;
export const internal = { error: { code: 'internal', detail: '' } } as const;
/** An answer of a claim. */
export const claimed = ({ epoch = 1, leaseMs = 30_000 }: { epoch?: number; leaseMs?: number } = {}) =>
  ({ reply: { kind: 'claimed', epoch, seq: 1, node: 'node-1', leaseMs } }) as const;

/** Is it the frame that renews leases? */
export function isRenewal({ frame }: AskedFrame): boolean {
  return frame.worker !== undefined;
}

export async function startBackend(script: Script = {}, { port = 0 }: { port?: number } = {}): Promise<Backend> {
  const sockets = new Set<Socket>();
  const nonces = new NonceMemory();
  const counts = new Map<string, number>();
  const seqs = new Map<unknown, number>();
  const waiting = new Set<() => void>();
  let connections = 0;

  const byDefault = ({ pattern, data }: Asked): { reply: ReplyOf<RuntimePattern> } => {
    const seq = seqs.get(data['runId']) ?? 1;
    switch (pattern) {
      case 'automation.runtime.run.prepare':
        return data['renew'] === true ? { reply: { kind: 'renewed', leaseMs: 30_000 } } : claimed();
      case 'automation.runtime.plan.get':
        return { reply: { kind: 'plan', versionId: VERSION_ID, ...(data['nodes'] === true && { plan: { versionId: VERSION_ID, nodes: {} } }) } };
      case 'automation.runtime.attempt.create':
      case 'automation.runtime.attempt.latest':
        return { reply: { kind: 'attempt', seq, n: 1, node: `node-${seq}`, tally: { failed: 0, uncertain: 0 }, outcome: null } };
      case 'automation.runtime.action.execute':
        return { reply: { kind: 'outcome', outcome: { kind: 'done', output: null } } };
      case 'automation.runtime.attempt.update':
        return { reply: { kind: 'recorded', verb: 'advance' } };
      case 'automation.runtime.run.advance':
      case 'automation.runtime.run.succeed':
        return rests();
      case 'automation.runtime.run.wait':
        return rests('waiting');
      case 'automation.runtime.run.retry':
        return rests('retrying');
      case 'automation.runtime.run.fail':
        return rests('failed');
      case 'automation.runtime.run.dead-letter':
        return rests('dead_lettered');
      case 'automation.runtime.run.notify-failed':
        return { reply: { kind: 'notified', sent: true } };
    }
  };

  const answerOne = async (pattern: RuntimePattern, data: Record<string, unknown>): Promise<ItemDoing<RuntimePattern>> => {
    PATTERNS[pattern].request.parse(data);
    const isRenew = data['renew'] === true;
    const counted = isRenew ? 'renew' : pattern;
    const nth = (counts.get(counted) ?? 0) + 1;
    counts.set(counted, nth);
    const asked: Asked = { pattern, data, nth };
    if (!isRenew) backend.calls.push(asked);
    notice();
    const answerer = (isRenew ? script.renew : script[pattern]) as Answerer<RuntimePattern> | undefined;
    const answer = (await answerer?.(asked)) ?? byDefault(asked);
    if ('reply' in answer && answer.reply.kind === 'advanced') seqs.set(data['runId'], answer.reply.seq);
    return answer;
  };

  const answerRun = async (items: readonly FrameItem[]) => {
    const replies: ItemDoing<RuntimePattern>[] = [];
    for (const { pattern, data } of items) {
      const answer = await answerOne(pattern, data);
      replies.push(answer);
      if ('error' in answer || ['refused', 'rests', 'held', 'not_due'].includes(answer.reply.kind)) break;
    }
    return { replies };
  };

  const answer = async (pattern: Pattern, data: unknown, connection: number): Promise<Doing<unknown>> => {
    if (pattern !== FRAME_PATTERN) return answerOne(pattern as RuntimePattern, data as Record<string, unknown>);
    const frame = PATTERNS[FRAME_PATTERN].request.parse(data) as Frame;
    const asked: AskedFrame = { frame, connection, patterns: frame.runs.flatMap(({ items }) => items.map((item) => item.pattern)), atMs: performance.now() };
    backend.frames.push(asked);
    notice();
    const said = await script.frame?.(asked);
    if (said !== undefined) return said;
    return { reply: { v: 1, runs: await Promise.all(frame.runs.map(({ items }) => answerRun(items))) } };
  };

  const server = createServer((socket) => {
    const reader = new MessageReader();
    const connection = ++connections;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      for (const message of reader.push(chunk)) {
        const packet = readPacket(message);
        if (!packet || verify(packet, { secrets: [SECRET], now: Date.now(), nonces }) !== 'ok') return void socket.destroy();
        void answer(packet.pattern as Pattern, parseJson(packet.body), connection).then((doing) => {
          if (doing === 'cut') socket.destroy();
          else if (doing !== 'silent' && socket.writable) socket.write(encodeMessage({ id: packet.id, ...doing }));
        });
      }
    });
  });

  const notice = () => {
    for (const look of waiting) look();
  };
  const untilFound = <T>(find: () => T | undefined): Promise<T> =>
    new Promise((resolve) => {
      const look = () => {
        const found = find();
        if (found === undefined) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      look();
    });

  const backend: Backend = {
    host: '127.0.0.1',
    port: 0,
    secret: SECRET,
    frames: [],
    work: () => backend.frames.filter((asked) => !isRenewal(asked)),
    calls: [],
    of: (pattern) => backend.calls.filter((asked) => asked.pattern === pattern),
    untilFrame: (fits) => untilFound(() => backend.frames.find(fits)),
    until: (pattern, fits = () => true) => untilFound(() => backend.of(pattern).find(fits)),
    nextRenewal: () => {
      const seen = backend.frames.length;
      return untilFound(() => backend.frames.slice(seen).find(isRenewal));
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    },
  };
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  backend.port = (server.address() as AddressInfo).port;
  return backend;
}
