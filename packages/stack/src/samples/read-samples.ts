/**
 * Reads the folder `samples/` of the checkout: contacts, lists, and journeys with their templates, events and expected ends.
 *
 * Two kinds of placeholders are filled while reading, since they depend on where and when the samples run: `{{sink}}` in
 * workflows (the webhook sink's base URL) and `{{today}}`, `{{tomorrow}}`, `{{yesterday}}` in events (dates in UTC). Everything
 * else in double braces is Liquid and left to Onward. Journeys come in the order of their first events.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Graph } from './api-answers.js';

export type SampleList = { readonly name: string; readonly holdsAllContacts: boolean };
export type SampleTemplate = { readonly name: string };
export type SampleWorkflow = { readonly name: string; readonly graph: Graph };
export type SampleEvent = { readonly id: string; readonly type: string; readonly contact: { readonly externalId: string } };

export type ExpectedMail = { readonly to: string; readonly subject: string };
/** `times`: how often the very same request arrives, attempts that fail included. */
export type ExpectedRequest = { readonly method: string; readonly path: string; readonly body: unknown; readonly times: number };

/** How the run of one event should end. `nodes` are those of its steps in order; `tags` and `lists` the contact's, at the end. */
export type ExpectedRun = {
  readonly state: string;
  readonly nodes: readonly string[];
  readonly mails: readonly ExpectedMail[];
  readonly requests: readonly ExpectedRequest[];
  readonly notices: readonly ExpectedMail[];
  readonly tags: readonly string[];
  readonly lists: readonly string[];
};

/** `runs` and `refusals` by event id. With `targetFailsAtFirst` the sink answers 500 until a person repairs it and replays the runs. */
export type Expected = {
  readonly targetFailsAtFirst?: boolean;
  readonly runs: Readonly<Record<string, ExpectedRun>>;
  readonly refusals: Readonly<Record<string, string>>;
};

export type Journey = {
  readonly workflow: SampleWorkflow;
  readonly templates: readonly SampleTemplate[];
  readonly events: readonly SampleEvent[];
  readonly expected: Expected;
};

export type Samples = {
  readonly contactsCsv: string;
  /** External ids, in the order of the file. */
  readonly externalIds: readonly string[];
  readonly lists: readonly SampleList[];
  readonly journeys: readonly Journey[];
};

const DAY_MS = 86_400_000;

/** Throws when a file is missing or not what it should be. */
export function readSamples(folder: string, { sinkUrl, now }: { sinkUrl: string; now: Date }): Samples {
  const text = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8');
  const contactsCsv = text('contacts.csv');
  const events = fillDates(text('events.jsonl'), now)
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => JSON.parse(line) as SampleEvent);

  const readJourney = (name: string): Journey => {
    const expected = JSON.parse(text(name, 'expected.json')) as Expected;
    const own = new Set([...Object.keys(expected.runs), ...Object.keys(expected.refusals)]);
    const templates = readdirSync(join(folder, name)).filter((file) => /^template-.*\.json$/.test(file));
    return {
      workflow: JSON.parse(text(name, 'workflow.json').replaceAll('{{sink}}', sinkUrl)) as SampleWorkflow,
      templates: templates.map((file) => JSON.parse(text(name, file)) as SampleTemplate),
      events: events.filter(({ id }) => own.has(id)),
      expected,
    };
  };
  const folders = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const journeys = folders.map(({ name }) => readJourney(name));
  const firstOf = ({ events: [first] }: Journey): number => (first === undefined ? -1 : events.indexOf(first));
  return {
    contactsCsv,
    externalIds: contactsCsv
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.split(',', 1)[0] ?? ''),
    lists: JSON.parse(text('lists.json')) as SampleList[],
    journeys: journeys.sort((a, b) => firstOf(a) - firstOf(b)),
  };
}

/** Dates are those of `now` in UTC. */
export function fillDates(text: string, now: Date): string {
  const dateIn = (days: number): string => new Date(now.getTime() + days * DAY_MS).toISOString().slice(0, 10);
  return text.replaceAll('{{today}}', dateIn(0)).replaceAll('{{tomorrow}}', dateIn(1)).replaceAll('{{yesterday}}', dateIn(-1));
}
