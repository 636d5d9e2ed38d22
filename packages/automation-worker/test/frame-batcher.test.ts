/** What becomes of many runs' items on their way: against a call that is answered by the test. The same over TCP stands in conversation.test.ts. */
import type { FrameItem, FrameReply } from '@onward/contracts/frame';
import { ClientClosed, RpcFault, RpcTimeout } from '@onward/wire/faults';
import { describe, expect, test } from 'vitest';
import { FrameBatcher, LANES, LANES_THAT_GO_ON, MAX_FRAME_CHARS, RUNS_PER_FRAME } from '../src/frame-batcher.js';

const FRAME = 'automation.runtime.frame';
const itemsOf = (name: string, ballast = ''): FrameItem[] => [{ pattern: 'automation.runtime.run.prepare', data: { name, ballast } }];
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A frame that left: the names of its runs, and how it ends. */
type Left = { names: string[]; following: number; timeoutMs: number; answer(...replies: object[]): void; answerAll(): void; fail(error: Error): void };

function start({ timeoutMs = 60_000 } = {}) {
  const frames: Left[] = [];
  const tookMs: number[] = [];
  const batcher = new FrameBatcher(
    (text, options) =>
      new Promise((resolve, reject) => {
        const frame = JSON.parse(text) as { following: number; runs: { items: { data: { name: string } }[] }[] };
        const names = frame.runs.map(({ items }) => items[0]?.data.name ?? '');
        const answer = (...replies: object[]) => resolve({ v: 1, runs: replies.map((one) => ({ replies: [one] })) } as FrameReply);
        frames.push({
          names,
          following: frame.following,
          ...options,
          answer,
          answerAll: () => answer(...names.map((name) => ({ reply: { name } }))),
          fail: reject,
        });
      }),
    { timeoutMs, noteFrame: (ms) => tookMs.push(ms) },
  );
  const send = async (name: string, ballast?: string) => (await batcher.send(itemsOf(name, ballast))).replies;
  const sendMany = (count: number, from = 0) => Array.from({ length: count }, (_, index) => send(`run-${from + index}`));
  return { batcher, frames, tookMs, send, sendMany };
}

const fault = (code: 'too_large' | 'malformed' | 'invalid' | 'internal') => new RpcFault(FRAME, code, '');

describe('gathering', () => {
  test('runs of one turn of the event loop leave in one frame, and each is answered by its place in it', async () => {
    const { frames, send } = start();
    const answers = Promise.all([send('a'), send('b'), Promise.resolve().then(() => send('c'))]);
    await nextTurn();
    expect(frames.map(({ names }) => names)).toEqual([['a', 'b', 'c']]);
    frames[0]?.answerAll();
    expect(await answers).toEqual([[{ reply: { name: 'a' } }], [{ reply: { name: 'b' } }], [{ reply: { name: 'c' } }]]);
  });

  test('a frame has so many runs at most, and so many frames are in flight at most', async () => {
    const { frames, sendMany } = start();
    const answers = Promise.all(sendMany(RUNS_PER_FRAME * LANES + 1));
    await nextTurn();
    expect(frames.map(({ names }) => names.length)).toEqual(Array(LANES).fill(RUNS_PER_FRAME));
    frames[3]?.answerAll();
    await nextTurn();
    await nextTurn();
    expect(frames).toHaveLength(LANES + 1);
    expect(frames[LANES]?.names).toEqual([`run-${RUNS_PER_FRAME * LANES}`]);
    for (const { answerAll } of frames) answerAll();
    expect(await answers).toHaveLength(RUNS_PER_FRAME * LANES + 1);
  });

  test('some lanes are kept for frames that are answered at once', async () => {
    const { frames, send } = start();
    for (let lane = 1; lane <= LANES; lane += 1) {
      void send(`run-${lane}`);
      await nextTurn();
    }
    expect(frames.map(({ following }) => following > 0)).toEqual([...Array(LANES_THAT_GO_ON).fill(true), ...Array(LANES - LANES_THAT_GO_ON).fill(false)]);
  });

  test('while all lanes are taken more is gathered, and leaves together', async () => {
    const { frames, send } = start();
    for (let lane = 0; lane < LANES; lane += 1) {
      void send(`first-${lane}`);
      await nextTurn();
    }
    void send('late-1');
    await nextTurn();
    void send('late-2');
    await nextTurn();
    expect(frames).toHaveLength(LANES);
    frames[0]?.answerAll();
    await nextTurn();
    await nextTurn();
    expect(frames[LANES]?.names).toEqual(['late-1', 'late-2']);
  });

  test('large items are bounded beforehand: what does not fit into a frame takes the next, and one that is too large by itself goes alone', async () => {
    const { frames, send } = start();
    void send('half', 'x'.repeat(MAX_FRAME_CHARS / 2));
    void send('other half', 'x'.repeat(MAX_FRAME_CHARS / 2));
    void send('whole', 'x'.repeat(MAX_FRAME_CHARS));
    void send('small');
    await nextTurn();
    expect(frames.map(({ names }) => names)).toEqual([['half'], ['other half'], ['whole'], ['small']]);
  });

  test('says how long each frame took, however it ended', async () => {
    const { frames, tookMs, send } = start();
    const first = send('a');
    await nextTurn();
    frames[0]?.answerAll();
    await first;
    const second = send('b');
    await nextTurn();
    frames[1]?.fail(fault('internal'));
    await expect(second).rejects.toThrow('internal');
    expect(tookMs).toHaveLength(2);
  });
});

describe('what goes wrong', () => {
  test('an item that threw is an answer of its own run and of no other', async () => {
    const { frames, send } = start();
    const answers = Promise.all([send('a'), send('b'), send('c')]);
    await nextTurn();
    const error = { error: { code: 'internal', detail: '' } };
    frames[0]?.answer({ reply: { name: 'a' } }, error, { reply: { name: 'c' } });
    expect(await answers).toEqual([[{ reply: { name: 'a' } }], [error], [{ reply: { name: 'c' } }]]);
  });

  test('items without JSON text fail alone, and nothing of them leaves', async () => {
    const { batcher, frames, send } = start();
    const good = send('good');
    await expect(batcher.send([{ pattern: 'automation.runtime.run.prepare', data: { name: 1n } }])).rejects.toThrow('no JSON text');
    await nextTurn();
    expect(frames.map(({ names }) => names)).toEqual([['good']]);
    frames[0]?.answerAll();
    await good;
  });

  test.each(['too_large', 'malformed', 'invalid'] as const)('a frame refused as %s is halved until only the run that is so fails', async (code) => {
    const sent: string[][] = [];
    const batcher = new FrameBatcher(
      async (text) => {
        const names = (JSON.parse(text) as { runs: { items: { data: { name: string } }[] }[] }).runs.map(({ items }) => items[0]?.data.name ?? '');
        sent.push(names);
        if (names.includes('run-2')) throw fault(code);
        return { v: 1, runs: names.map((name) => ({ replies: [{ reply: { name } }] })) };
      },
      { timeoutMs: 60_000 },
    );
    const answers = await Promise.allSettled(Array.from({ length: 5 }, (_, index) => batcher.send(itemsOf(`run-${index}`))));
    expect(answers.map((answer) => (answer.status === 'fulfilled' ? answer.value.replies : (answer.reason as RpcFault).code))).toEqual([
      [{ reply: { name: 'run-0' } }],
      [{ reply: { name: 'run-1' } }],
      code,
      [{ reply: { name: 'run-3' } }],
      [{ reply: { name: 'run-4' } }],
    ]);
    expect(sent).toEqual([['run-0', 'run-1', 'run-2', 'run-3', 'run-4'], ['run-0', 'run-1', 'run-2'], ['run-0', 'run-1'], ['run-2'], ['run-3', 'run-4']]);
  });

  test.each([
    ['a fault of the backend', fault('internal')],
    ['a deadline', new RpcTimeout(FRAME, 60_000, null)],
    ['the end of the client', new ClientClosed(FRAME)],
  ])('%s fails every run of the frame, and the lane is free again', async (_, error) => {
    const { frames, send } = start();
    for (let time = 0; time <= LANES; time += 1) {
      const both = Promise.allSettled([send('a'), send('b')]);
      await nextTurn();
      await nextTurn();
      expect(frames).toHaveLength(time + 1);
      frames[time]?.fail(error);
      expect(await both).toEqual([
        { status: 'rejected', reason: error },
        { status: 'rejected', reason: error },
      ]);
    }
  });

  test('a run that alone could not be served is sent again, and those beside it are answered meanwhile', async () => {
    const { frames, send } = start();
    const unlucky = send('unlucky');
    const lucky = send('lucky');
    await nextTurn();
    frames[0]?.answer({ error: { code: 'unavailable', detail: '' } }, { reply: { name: 'lucky' } });
    expect(await lucky).toEqual([{ reply: { name: 'lucky' } }]);
    await expect.poll(() => frames.length, { timeout: 30_000 }).toBe(2);
    expect(frames[1]?.names).toEqual(['unlucky']);
    frames[1]?.answerAll();
    expect(await unlucky).toEqual([{ reply: { name: 'unlucky' } }]);
  });

  test('an error behind an answer is not sent again: what stands before it is committed', async () => {
    const calls: string[] = [];
    const replies = [{ reply: { kind: 'recorded' } }, { error: { code: 'unavailable' as const, detail: '' } }];
    const batcher = new FrameBatcher(
      async (text) => {
        calls.push(text);
        return { v: 1, runs: [{ replies }] };
      },
      { timeoutMs: 60_000 },
    );
    expect((await batcher.send(itemsOf('a'))).replies).toEqual(replies);
    expect(calls).toHaveLength(1);
  });

  test('a run that the answer does not hold is answered nothing', async () => {
    const { frames, send } = start();
    const answers = Promise.all([send('a'), send('b')]);
    await nextTurn();
    frames[0]?.answer({ reply: { name: 'a' } });
    expect(await answers).toEqual([[{ reply: { name: 'a' } }], []]);
  });
});

describe('deadlines', () => {
  test('a run that found no lane in its time fails, and is not sent any more', async () => {
    const { frames, send } = start({ timeoutMs: 300 });
    const stuck: Promise<unknown>[] = [];
    for (let lane = 0; lane < LANES; lane += 1) {
      stuck.push(send(`stuck-${lane}`));
      await nextTurn();
    }
    await expect(send('waiting')).rejects.toThrow(RpcTimeout);
    expect(await Promise.allSettled(stuck)).toMatchObject(Array(LANES).fill({ status: 'rejected' }));
    for (const { fail } of frames) fail(fault('internal'));
    const next = send('next');
    await nextTurn();
    await nextTurn();
    expect(frames.slice(LANES).map(({ names }) => names)).toEqual([['next']]);
    frames[LANES]?.answerAll();
    await next;
  });

  test('a frame has as much time as its youngest run has left', async () => {
    const { frames, send } = start({ timeoutMs: 60_000 });
    void send('a');
    await nextTurn();
    expect(frames[0]?.timeoutMs).toBeGreaterThan(50_000);
    expect(frames[0]?.timeoutMs).toBeLessThanOrEqual(60_000);
  });

  test('a run whose deadline passes while its frame is in flight fails; a later answer harms nobody', async () => {
    const { frames, send } = start({ timeoutMs: 200 });
    await expect(send('a')).rejects.toThrow(RpcTimeout);
    frames[0]?.answerAll();
    const next = send('b');
    await nextTurn();
    frames[1]?.answerAll();
    expect(await next).toEqual([{ reply: { name: 'b' } }]);
  });
});
