import type { FrameReply } from '@onward/contracts/frame';
import { RpcFault, RpcTimeout } from '@onward/wire/faults';
import { expect, test } from 'vitest';
import { FrameBatcher, LANES, MAX_FRAME_CHARS, RUNS_PER_FRAME } from '../src/frame-batcher.js';

/** The calls of many runs as frames. What a frame is answered is given here by hand; that it travels is tested with the wire. */

type Asked = { runs: { items: { data: { runId: string; text?: string } }[] }[] };
type Sent = { runIds: string[]; timeoutMs: number; answer(reply: FrameReply): void; fail(error: unknown): void };

function bench(timeoutMs = 60_000) {
  const sent: Sent[] = [];
  const took: number[] = [];
  const frames = new FrameBatcher(
    (text, options) =>
      new Promise((resolve, reject) => {
        const runIds = (JSON.parse(text) as Asked).runs.map(({ items }) => items[0]?.data.runId ?? '');
        sent.push({ runIds, timeoutMs: options.timeoutMs, answer: resolve, fail: reject });
      }),
    { timeoutMs, noteFrame: (ms) => took.push(ms) },
  );
  const send = (runId: string, text = '') => frames.send([{ pattern: 'automation.runtime.plan.get', data: { runId, text } }]);
  const untilSent = (count: number) => expect.poll(() => sent.length, { timeout: 10_000 }).toBe(count);
  return { sent, took, send, untilSent };
}

/** Answers each run with its own id. */
const echo = ({ runIds }: Sent): FrameReply => ({ v: 1, runs: runIds.map((runId) => ({ replies: [{ reply: { runId } }] })) });
const ids = (count: number, from = 0) => Array.from({ length: count }, (_, nth) => `run-${from + nth}`);

test('what is sent in one turn leaves in one frame, and each run is answered its own', async () => {
  const { sent, took, send, untilSent } = bench();
  const answers = Promise.all(ids(5).map((id) => send(id)));
  await untilSent(1);
  expect(sent[0]?.runIds).toEqual(ids(5));
  sent[0]?.answer(echo(sent[0]));
  expect(await answers).toEqual(ids(5).map((runId) => [{ reply: { runId } }]));
  expect(took).toHaveLength(1);
});

test('a frame takes so many runs and no more, and the others leave in the next', async () => {
  const { sent, send, untilSent } = bench();
  const answers = Promise.all(ids(RUNS_PER_FRAME + 1).map((id) => send(id)));
  await untilSent(2);
  expect(sent.map(({ runIds }) => runIds.length)).toEqual([RUNS_PER_FRAME, 1]);
  for (const one of sent) one.answer(echo(one));
  expect(await answers).toHaveLength(RUNS_PER_FRAME + 1);
});

test('a run with much to say does not share its frame with more than fits into it', async () => {
  const { sent, send, untilSent } = bench();
  const answers = Promise.all(ids(3).map((id) => send(id, 'x'.repeat(MAX_FRAME_CHARS * 0.6))));
  await untilSent(3);
  for (const one of sent) one.answer(echo(one));
  expect(await answers).toHaveLength(3);
});

test('while all lanes are taken more is gathered, and leaves together when one is free', async () => {
  const { sent, send, untilSent } = bench();
  const answers: Promise<unknown>[] = [];
  for (let lane = 1; lane <= LANES; lane += 1) {
    answers.push(send(`lane-${lane}`));
    await untilSent(lane);
  }
  answers.push(...ids(10).map((id) => send(id)));
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  expect(sent).toHaveLength(LANES);
  sent[0]?.answer(echo(sent[0]));
  await untilSent(LANES + 1);
  expect(sent[LANES]?.runIds).toEqual(ids(10));
  for (const one of sent.slice(1)) one.answer(echo(one));
  await Promise.all(answers);
});

test('a frame that is too large, there or back, is halved until only the run that is too large fails', async () => {
  const { sent, send, untilSent } = bench();
  const answers = Promise.allSettled(ids(4).map((id) => send(id)));
  const answerAll = async (count: number) => {
    await untilSent(count);
    const last = sent[count - 1] as Sent;
    if (last.runIds.includes('run-2')) last.fail(new RpcFault('automation.runtime.frame', 'too_large', 'too large'));
    else last.answer(echo(last));
  };
  for (let count = 1; count <= 5; count += 1) await answerAll(count);
  expect(sent.map(({ runIds }) => runIds.length)).toEqual([4, 2, 2, 1, 1]);
  expect((await answers).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
});

test('any other fault of a frame fails each of its runs, and no other', async () => {
  const { sent, send, untilSent } = bench();
  const failing = Promise.allSettled(ids(2).map((id) => send(id)));
  await untilSent(1);
  const other = send('other');
  await untilSent(2);
  sent[0]?.fail(new RpcFault('automation.runtime.frame', 'internal', 'a fault'));
  sent[1]?.answer(echo(sent[1]));
  expect((await failing).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await other).toEqual([{ reply: { runId: 'other' } }]);
});

test('a run that alone could not be served is sent again, and an item that threw is its own reply', async () => {
  const { sent, send, untilSent } = bench();
  const [first, second] = [send('first'), send('second')];
  await untilSent(1);
  const fault = { code: 'internal', detail: 'a fault' } as const;
  sent[0]?.answer({ v: 1, runs: [{ replies: [{ error: { code: 'unavailable', detail: 'later' } }] }, { replies: [{ error: fault }] }] });
  expect(await second).toEqual([{ error: fault }]);
  await untilSent(2);
  expect(sent[1]?.runIds).toEqual(['first']);
  sent[1]?.answer(echo(sent[1]));
  expect(await first).toEqual([{ reply: { runId: 'first' } }]);
});

test('a run whose time is up is told so, whatever its frame comes to', async () => {
  const { send } = bench(50);
  await expect(send('late')).rejects.toBeInstanceOf(RpcTimeout);
});
