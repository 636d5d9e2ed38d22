import { randomUUID } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { AUTOMATIONS_QUEUE, MAIL_QUEUE, MAIL_RESULTS_QUEUE, type MailJob, MESSAGE_RESULT, QUEUE_PREFIX, type WakeUp } from '@onward/contracts/queues';
import type { BackendClient } from '@onward/wire/client';
import { FailPoints } from '@onward/wire/fail-points';
import { RpcTimeout } from '@onward/wire/faults';
import { Queue, QueueEvents, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { describe, inject, test } from 'vitest';
import { change, rows } from '../../src/database/sql.js';
import { isEnded } from '../../src/runtime/moves.js';
import { backendForTest } from '../backend-for-test.js';
import { readQueue } from '../sweeper/sweeper-bench.js';
import { type Asking, HandDriver, HandGateway, startTarget, type Watch } from './hand-driver.js';
import { publish, tag, wait } from './hand-worker.js';
import { directClient, outerWorld } from './outer-world.js';

/**
 * The twelve moments at which a run can be cut, each cut once while everything else goes on as it does in production: the emitter sends its
 * event again, BullMQ hands jobs out again, the sweeper sweeps, the gateway delivers. The run then ends as if nothing had been.
 *
 * `throw` stands for the death of whoever was at work: the same statements are undone, and the same answer never comes. Real processes are
 * killed at the same points in packages/proving.
 */
type Cut = {
  moment: string;
  /** What stands in the database when it is cut: the run, its latest attempt, its mail. */
  leaves: string;
  failPoint?: string;
  manner?: 'alone' | 'frames';
  /** From when on the fail point counts, where a count from the beginning would depend on the sweeper; from the beginning when not given. */
  armedAt?: { asking: Asking; node: string; nth: number };
  /** Dies as the worker does: says where by throwing. */
  dies?: (died: () => boolean) => Watch;
  /** Emits the event otherwise than by a request that is sent again until it is accepted. */
  isEmitterCut?: true;
  /** The result of the mail reaches the backend by its queue alone, the first time. */
  isEndLost?: true;
  uncertain?: number;
  mailTries?: number;
  sends?: number;
};

const CUTS: Cut[] = [
  { moment: 'before an event and its run are written', leaves: 'nothing', failPoint: 'event.before-commit:throw@1' },
  { moment: 'after the commit of a new run, before the queue is told', leaves: 'pending at start', failPoint: 'commit.before-enqueue:throw@1' },
  {
    moment: 'after the commit of a mail, before its queue is told',
    leaves: 'running at greet, greet waiting, mail prepared',
    failPoint: 'commit.before-enqueue:throw@1',
    armedAt: { asking: 'record frame', node: 'call', nth: 2 },
  },
  { moment: 'after the queue is told, before the emitter is answered', leaves: 'pending at start', isEmitterCut: true },
  { moment: 'after the claim, with the step begun in the same frame', leaves: 'running at mark, mark done', failPoint: 'claim.after-commit:throw@1' },
  { moment: 'after the claim alone', leaves: 'running at mark, start done', failPoint: 'claim.after-commit:throw@1', manner: 'alone' },
  { moment: 'after the intent, before the request has left', leaves: 'running at call, call sending', failPoint: 'intent.after-commit:throw@1', uncertain: 1 },
  {
    moment: 'after the send, before its outcome is recorded',
    leaves: 'running at call, call sending',
    dies: (died) => (asking, node) => {
      if (asking === 'record frame' && node === 'call' && !died()) throw new Error('The worker died');
    },
    uncertain: 1,
  },
  { moment: 'after the outcome of the send is committed', leaves: 'retrying at call, call failed', failPoint: 'outcome.after-commit:throw@2' },
  { moment: 'after the outcome, before the advance', leaves: 'running at call, call done', failPoint: 'outcome.before-advance:throw@3-4' },
  {
    moment: 'after the outcome is committed alone, before the advance',
    leaves: 'running at call, call done',
    failPoint: 'outcome.before-advance:throw@2-3',
    manner: 'alone',
  },
  { moment: 'after a wait is stored', leaves: 'waiting at rest, rest waiting, mail sent', failPoint: 'wait.after-commit:throw@2' },
  { moment: 'when a wait by time is due', leaves: 'waiting at rest, rest waiting, mail sent', failPoint: 'wait.due:throw@2-3' },
  { moment: 'when a wait by time is claimed', leaves: 'running at close, close done, mail sent', failPoint: 'claim.after-commit:throw@4' },
  { moment: 'after a mail is begun', leaves: 'greet waiting, mail begun', failPoint: 'mail.after-begin:throw@1', mailTries: 2 },
  { moment: 'after the result of a mail is committed', leaves: 'mail sent', failPoint: 'mail.after-end:throw@1' },
  {
    moment: 'after the result of a mail is taken off its queue',
    leaves: 'greet waiting, mail begun',
    failPoint: 'mail-results.before-store:throw@1',
    isEndLost: true,
    mailTries: 2,
    sends: 2,
  },
  { moment: 'after the result of a mail is stored from its queue', leaves: 'mail sent', failPoint: 'mail-results.after-store:throw@1', isEndLost: true },
];

/** Events are stored while something wants their type; this wants them and never starts. */
const NEVER = { tests: [{ field: 'event.nothing', op: 'exists' }] };

/** Databases of Valkey that no other test file uses; each backend and its queues have one. */
const valkeys = Array.from({ length: 10 }, (_, index) => index + 6);

describe.concurrent('a run that is cut once', () => {
  for (const cut of CUTS) {
    test(`${cut.moment}, ends as if nothing had been`, { timeout: 120_000 }, async ({ expect }) => {
      const bench = await production(cut);
      try {
        const runId = cut.isEmitterCut ? await bench.emitAndHangUp() : await bench.emit();
        expect(await bench.untilEnded(runId)).toBe('succeeded');
        expect(await bench.untilCut()).toEqual([expect.stringContaining(cut.leaves)]);
        expect(await bench.breaches(runId)).toEqual([]);
        const attempts = await bench.world.readAttempts(runId);
        expect(attempts.filter(({ status }) => status === 'uncertain')).toHaveLength(cut.uncertain ?? 0);
        expect(await bench.world.readMessages(runId)).toMatchObject([{ state: 'sent', try: cut.mailTries ?? 1 }]);
        expect(bench.countSends()).toBe(cut.sends ?? 1);
        const { runs, events } = await bench.count();
        expect({ runs, events }).toEqual({ runs: 1, events: 1 });
      } finally {
        await bench.close();
      }
    });
  }
});

/** A backend that sweeps, with the queues drained by a worker and a gateway moved by hand. */
async function production({ failPoint, manner = 'frames', dies, isEndLost, armedAt }: Cut) {
  const valkey = valkeys.shift();
  if (valkey === undefined) throw new Error('More backends run at once than there are databases of Valkey');
  const valkeyUrl = `${inject('ground').valkeyUrl}/${valkey}`;
  const connection = new Redis(valkeyUrl, { maxRetriesPerRequest: null });
  await connection.flushdb();
  const target = await startTarget();
  const onward = await backendForTest({
    VALKEY_URL: valkeyUrl,
    DATABASE_POOL_SIZE: '5',
    AUTOMATIONS_SWEEP_INTERVAL_MS: '500',
    // The worker moved by hand renews no lease.
    AUTOMATIONS_LEASE_MS: '120000',
    ...(failPoint && !armedAt ? { ONWARD_FAIL_POINTS: failPoint } : {}),
  });
  const client = directClient(onward);
  const cuts: string[] = [];
  const noteCut = async () => {
    const [left] = await rows<{ left: string }>(
      onward.source,
      `SELECT concat_ws(', ', state || ' at ' || node, (SELECT node || ' ' || status FROM attempts WHERE run_id = runs.id ORDER BY seq DESC, n DESC LIMIT 1),
                (SELECT 'mail ' || state FROM messages WHERE run_id = runs.id)) AS left FROM runs`,
    );
    cuts.push(left?.left ?? 'nothing');
  };
  let inHandNow = 0;
  const inHand = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    inHandNow += 1;
    try {
      return await work();
    } catch (error) {
      await noteCut();
      throw error;
    } finally {
      inHandNow -= 1;
    }
  };
  const die = dies?.(() => cuts.length > 0);
  let made = 0;
  const watch: Watch = (asking, node) => {
    die?.(asking, node);
    if (asking !== armedAt?.asking || node !== armedAt.node) return;
    made += 1;
    if (made === armedAt.nth) Object.assign(onward.backend.app.get(FailPoints, { strict: false }), new FailPoints(failPoint));
  };
  const driver = new HandDriver(client, { manner, watch });
  const world = outerWorld(onward, target);
  const options = { connection, prefix: QUEUE_PREFIX, concurrency: 4 };
  const handOuts = new Worker<WakeUp>(
    AUTOMATIONS_QUEUE,
    (job) => inHand(() => driver.handOut({ ...job.data, node: '' }, { callId: job.attemptsStarted, handOutId: randomUUID() })),
    options,
  );
  const results = new Queue(MAIL_RESULTS_QUEUE, { connection, prefix: QUEUE_PREFIX });
  let isEndToLose = isEndLost === true;
  const mailClient: Pick<BackendClient, 'call'> = {
    call: (pattern, data, options) => {
      if (pattern !== 'mail.message.end' || !isEndToLose) return client.call(pattern, data, options);
      isEndToLose = false;
      return Promise.reject(new RpcTimeout(pattern, 0, null));
    },
  };
  const gateway = new HandGateway(mailClient, undefined, (result) => results.add(MESSAGE_RESULT, result, { removeOnFail: true }));
  const mail = new Worker<MailJob>(MAIL_QUEUE, (job) => inHand(() => gateway.deliver(job.data)), options);
  const ofResults = new QueueEvents(MAIL_RESULTS_QUEUE, { connection, prefix: QUEUE_PREFIX });
  ofResults.on('failed', () => void noteCut());
  await ofResults.waitUntilReady();

  await onward.api('POST', '/templates', { name: 'hello', subject: 'Hello {{ contact.attributes.name }}', text: 'Hello' });
  for (const event of ['tag.added', 'run.succeeded']) {
    const nodes = [
      { id: 'start', type: 'trigger', config: { type: 'event', event, filter: NEVER } },
      { id: 'finish', type: 'end' },
    ];
    await publish(onward, { nodes, edges: [{ from: 'start', to: 'finish' }] });
  }
  const call = { id: 'call', type: 'action', config: { action: 'FORWARD_REQUEST', with: { url: `${target.url}/503/{{ run.id }}` } } };
  const greet = { id: 'greet', type: 'action', config: { action: 'SEND_MAIL', with: { template: 'hello' } } };
  const nodes = [
    { id: 'start', type: 'trigger', config: { type: 'event', event: 'order.paid' } },
    ...[tag('mark'), call, greet, wait('rest', '1h'), tag('close')],
    { id: 'finish', type: 'end' },
  ];
  const workflowId = await publish(onward, { nodes, edges: nodes.slice(1).map(({ id }, index) => ({ from: nodes[index]?.id ?? '', to: id })) });
  const event = { id: 'one', type: 'order.paid', contact: { email: 'one@example.test', attributes: { name: 'One' } } };

  const emit = async (): Promise<string> => {
    for (;;) {
      const { status, body } = await onward.api<{ runs: { runId: string }[] }>('POST', '/events', event);
      if (status < 300) return body.runs[0]?.runId ?? '';
      await noteCut();
    }
  };
  const contactOf = async (runId: string) =>
    (await rows<{ contactId: string }>(onward.source, 'SELECT contact_id AS "contactId" FROM runs WHERE id = $1', [runId]))[0]?.contactId ?? '';

  return {
    world,
    emit,
    breaches: async (runId: string) => world.breachesOf(runId, await contactOf(runId), gateway.sends),
    countSends: () => gateway.sends.length,
    untilCut: async () => {
      while (cuts.length === 0) await pause(10);
      return cuts;
    },
    close: async () => {
      await Promise.all([handOuts.close(), mail.close(), results.close(), ofResults.close()]);
      client.close();
      target.close();
      connection.disconnect();
      await onward.close();
      valkeys.push(valkey);
    },
    /** The emitter is gone before it is answered, and sends its event again later. */
    emitAndHangUp: async (): Promise<string> => {
      await handOuts.pause();
      const queue = readQueue(valkeyUrl);
      const sending = httpRequest(`${onward.url}/api/v1/events`, {
        method: 'POST',
        headers: { authorization: `Bearer ${onward.apiKey}`, 'content-type': 'application/json' },
      });
      sending.on('error', () => undefined);
      sending.on('response', (response) => response.destroy());
      sending.end(JSON.stringify(event));
      while ((await queue.waiting()).length === 0) await pause(10);
      sending.destroy();
      await noteCut();
      const runId = await emit();
      if ((await queue.waiting()).length !== 1) throw new Error('The run was put on the queue twice');
      await queue.close();
      void handOuts.resume();
      return runId;
    },
    /** Asks until the run has ended; lets hours go by when it only waits for its time, and the 90 s of a mail that nobody has in hand. */
    untilEnded: async (runId: string): Promise<string> => {
      for (;;) {
        const { state, dueAt } = await world.readRun(runId);
        if (isEnded(state)) return state;
        await pause(50);
        if (inHandNow > 0) continue;
        if ((state === 'waiting' || state === 'retrying') && dueAt && dueAt.getTime() > Date.now() + 10_000) {
          const [now] = await rows<{ isFar: boolean }>(
            onward.source,
            `SELECT due_at > onward_now() + interval '10 seconds' AS "isFar" FROM runs WHERE id = $1`,
            [runId],
          );
          if (now?.isFar) await onward.clock.advance('PT2H');
        }
        if (cuts.length > 0) {
          await change(
            onward.source,
            `UPDATE messages SET begun_until = clock_timestamp() WHERE state = 'begun' AND begun_until > clock_timestamp() + interval '30 seconds'`,
          );
        }
      }
    },
    count: async () => {
      const [found] = await rows<{ runs: number; events: number }>(
        onward.source,
        `SELECT (SELECT count(*)::int FROM runs WHERE workflow_id = $1) AS runs, (SELECT count(*)::int FROM events WHERE type = 'order.paid') AS events`,
        [workflowId],
      );
      return found ?? { runs: 0, events: 0 };
    },
  };
}
