/**
 * Loads the samples, sets them off, and tells the story of every run.
 *
 * With the test clock everything is led to its end in seconds and held against each journey's expected.json: mail and requests must have
 * arrived exactly as often as they should. Without it the runs are told as far as they have come, with how to hurry them, and
 * go on by themselves. A later start loads and sends nothing again. Everything goes through the HTTP API, as a stranger would do it.
 * Never throws: what went wrong is said, and the answer is not ok.
 */
import { join } from 'node:path';
import { CHECKOUT } from '../instance.js';
import type { Log } from '../log.js';
import { type Api, openApi } from './api.js';
import type { Contact, Graph, Run, RunState, Workflow } from './api-answers.js';
import { openTestClock, realClock } from './clock.js';
import { compareArrivals, countMails } from './compare-arrivals.js';
import { compareRun } from './compare-run.js';
import { followToRest, type Following, hasEnded } from './follow-runs.js';
import { formatInstant } from './format-instant.js';
import { type LoadedJourney, loadSamples } from './load-samples.js';
import { breakTarget, playOperator, repairTarget } from './play-operator.js';
import { readArrivals } from './read-arrivals.js';
import { readSamples } from './read-samples.js';
import { type SentEvent, sendEvents } from './send-events.js';
import { tellNextMove, tellRefusal, tellRun } from './tell-run.js';

export type SamplesPlan = {
  readonly apiUrl: string;
  readonly apiKey: string;
  /** Where that key is kept, and the logs, as a person in the checkout would write it. */
  readonly keyFile: string;
  readonly logFolder: string;
  readonly webhookSinkUrl: string;
  /** Undefined when mail goes to a server whose inbox cannot be seen. */
  readonly inboxUrl: string | undefined;
  readonly hasTestClock: boolean;
  readonly say: Log;
  readonly signal: AbortSignal;
};

const UNFINISHED: readonly RunState[] = ['pending', 'running', 'waiting', 'awaiting_approval', 'retrying'];

type Started = { readonly journey: LoadedJourney; readonly events: readonly SentEvent[] };

export async function runSamples(plan: SamplesPlan): Promise<{ ok: boolean }> {
  const { say, signal } = plan;
  try {
    return { ok: await runAll(plan) };
  } catch (error) {
    if (!signal.aborted) say(`\nThe samples did not run to their end: ${error instanceof Error ? error.message : String(error)}`);
    return { ok: false };
  }
}

async function runAll(plan: SamplesPlan): Promise<boolean> {
  const { webhookSinkUrl: sinkUrl, hasTestClock, say, signal } = plan;
  const api = openApi(plan);
  const clock = hasTestClock ? await openTestClock(api) : realClock;
  say('');
  const journeys = await loadSamples(api, readSamples(join(CHECKOUT, 'samples'), { sinkUrl, now: clock.now() }), { sinkUrl, say });
  const following: Following = { api, clock, say, signal };
  const started: Started[] = [];
  const ids = (): readonly string[] => started.flatMap(({ events }) => runIdsOf(events));
  for (const journey of journeys) {
    const isToFail = journey.expected.targetFailsAtFirst === true && !(await isKnown(api, journey));
    if (isToFail) await followToRest(ids(), following); // so that no other run calls the target while it is down
    started.push({ journey, events: await (isToFail ? setOffFailing(journey, sinkUrl, following) : setOff(journey, following)) });
  }
  const runs = await followToEnd(ids(), following);
  await tellAll(plan, api, started, runs);
  const isOk = hasTestClock ? await judge(plan, api, started, runs) : true;
  if (!hasTestClock) await tellOthers(api, runs, say);
  tellWhere(plan);
  return isOk;
}

async function setOff(journey: LoadedJourney, { api, say }: Following): Promise<readonly SentEvent[]> {
  const events = await sendEvents(api, journey);
  const added = events.filter(({ isNew }) => isNew).length;
  say(`${journey.workflow.name}: ${added === 0 ? 'its events were sent at an earlier start' : `${added} events sent`}, ${runIdsOf(events).length} runs`);
  return events;
}

/** Sends the events of a journey while the system it calls is down, and leads its runs through their dead letters. */
async function setOffFailing(journey: LoadedJourney, sinkUrl: string, following: Following): Promise<readonly SentEvent[]> {
  following.say(`${journey.workflow.name}: the system it calls is down (the webhook sink answers 500 for now)`);
  await breakTarget(sinkUrl);
  try {
    const events = await setOff(journey, following);
    await playOperator(runIdsOf(events), sinkUrl, following);
    return events;
  } finally {
    await repairTarget(sinkUrl);
  }
}

async function isKnown(api: Api, { events: [first] }: LoadedJourney): Promise<boolean> {
  return first !== undefined && (await api.find(`/events/${first.id}`)) !== undefined;
}

function runIdsOf(events: readonly SentEvent[]): readonly string[] {
  return events.flatMap(({ runId }) => runId ?? []);
}

/** Until all rest; on the test clock until all have ended. */
async function followToEnd(ids: readonly string[], following: Following): Promise<readonly Run[]> {
  const { clock, say } = following;
  say('All journeys:');
  for (;;) {
    const runs = await followToRest(ids, following);
    const next = soonestDue(runs);
    if (clock.moveTo === undefined || next === undefined) return runs;
    say(`  Time passes: ${formatInstant(next)}.`);
    await clock.moveTo(next);
  }
}

function soonestDue(runs: readonly Run[]): string | undefined {
  return runs
    .filter((run) => !hasEnded(run) && !run.isHeld)
    .flatMap(({ dueAt }) => dueAt ?? [])
    .sort((a, b) => Date.parse(a) - Date.parse(b))[0];
}

async function tellAll({ apiUrl, keyFile, say }: SamplesPlan, api: Api, started: readonly Started[], runs: readonly Run[]): Promise<void> {
  for (const { journey, events } of started) {
    const presentVersionId = (await api.get<Workflow>(`/workflows/${journey.workflowId}`)).version?.id;
    for (const { eventId, externalId, runId, refusal } of events) {
      const run = runs.find(({ id }) => id === runId);
      if (run !== undefined) {
        const { graph } = await api.get<{ graph: Graph }>(`/workflows/${run.workflowId}/versions/${run.versionNumber}`);
        const move = tellNextMove(run, { apiUrl, keyFile, presentVersionId });
        for (const line of ['', ...tellRun(run, graph), ...(move === undefined ? [] : [`         ${move}`])]) say(line);
      } else if (refusal !== undefined) {
        for (const line of ['', ...tellRefusal(journey.workflow.name, { eventId, externalId, reason: refusal })]) say(line);
      }
    }
  }
}

/** Runs of a person's own, or of events of an earlier day, go on beside those that are told here. */
async function tellOthers(api: Api, told: readonly Run[], say: Log): Promise<void> {
  const { items, nextCursor } = await api.get<{ items: readonly { id: string }[]; nextCursor: string | null }>(`/runs?state=${UNFINISHED.join()}&limit=200`);
  const others = items.filter(({ id }) => !told.some((run) => run.id === id)).length;
  if (others === 0) return;
  say(
    `\n${nextCursor === null ? '' : 'More than '}${others} other ${others === 1 ? 'run is' : 'runs are'} unfinished and ${others === 1 ? 'goes' : 'go'} on, too.`,
  );
}

/** With the test clock everything stops now, so only what stays is named. */
function tellWhere({ apiUrl, keyFile, logFolder, webhookSinkUrl, inboxUrl, hasTestClock, say }: SamplesPlan): void {
  say('\nWhere to look');
  if (!hasTestClock) {
    if (inboxUrl !== undefined) say(`  the mail that was sent       ${inboxUrl}`);
    say(`  requests since this start    ${webhookSinkUrl}/_requests`);
    say(`  runs, newest first           curl -H "Authorization: Bearer $(cat ${keyFile})" ${apiUrl}/api/v1/runs`);
  }
  say(`  what every process said      ${logFolder}/`);
  say('  what the samples are         samples/README.md');
}

/** Says what differs, and answers whether nothing does. */
async function judge(
  { inboxUrl, webhookSinkUrl: sinkUrl, say, signal }: SamplesPlan,
  api: Api,
  started: readonly Started[],
  runs: readonly Run[],
): Promise<boolean> {
  const differences: string[] = [];
  for (const { journey, events } of started) {
    for (const { eventId, runId, refusal } of events) {
      const expected = journey.expected.runs[eventId];
      const run = runs.find(({ id }) => id === runId);
      const about = (sentences: readonly string[]): void =>
        void differences.push(...sentences.map((sentence) => `${journey.workflow.name}, ${eventId}: ${sentence}`));
      if (refusal !== journey.expected.refusals[eventId]) about([`refused: ${refusal ?? 'no'} instead of ${journey.expected.refusals[eventId] ?? 'no'}`]);
      if (expected === undefined) continue;
      if (run === undefined) about(['it started no run']);
      else about(compareRun(run, run.contactId === null ? undefined : await api.find<Contact>(`/contacts/${run.contactId}`), expected));
    }
  }
  const expectedRuns = started.flatMap(({ journey }) => Object.values(journey.expected.runs));
  differences.push(...compareArrivals(await readArrivals({ inboxUrl, sinkUrl, signal }, countMails(expectedRuns)), expectedRuns));
  if (differences.length === 0) say(`\nAll ${runs.length} sample runs ended as they should.`);
  else say(`\nNot everything is as it should be:\n${differences.map((difference) => `  ${difference}`).join('\n')}`);
  return differences.length === 0;
}
