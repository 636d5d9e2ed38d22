/**
 * Brings the samples into Onward, once: what is there already, by its name or external id, is left as it is, so that a
 * later start loads nothing and undoes no change of a person.
 *
 * One thing is kept up: when the webhook sink has moved to another port since, journeys that call it are pointed at the new
 * one and published again; runs under way stay on the version they began on. Archived journeys are left alone.
 */
import type { Log } from '../log.js';
import type { Api } from './api.js';
import type { Graph, Named, Workflow } from './api-answers.js';
import type { Journey, SampleList, Samples, SampleTemplate } from './read-samples.js';

export type LoadedJourney = Journey & { readonly workflowId: string };

type Import = { readonly imported: number; readonly failedCount: number; readonly failed: readonly { readonly line: number; readonly reason: string }[] };

/** Throws ApiRefusal when Onward takes something not, and an Error when a contact could not be imported. */
export async function loadSamples(
  api: Api,
  { contactsCsv, externalIds, lists, journeys }: Samples,
  { sinkUrl, say }: { sinkUrl: string; say: Log },
): Promise<readonly LoadedJourney[]> {
  const listIds = await loadLists(api, lists);
  const contacts = await loadContacts(api, contactsCsv, externalIds, listIds);
  const templates = await loadTemplates(
    api,
    journeys.flatMap((journey) => journey.templates),
  );
  const known = [...(await api.all<Workflow>('/workflows')), ...(await api.all<Workflow>('/workflows?archived=true'))];
  const loaded: LoadedJourney[] = [];
  for (const journey of journeys) loaded.push({ ...journey, workflowId: await loadWorkflow(api, journey, known, { sinkUrl, say }) });
  const made = loaded.filter(({ workflowId }) => !known.some(({ id }) => id === workflowId)).length;
  say(
    contacts + templates + made === 0
      ? 'The samples are loaded already.'
      : `Loaded the samples: ${contacts.toLocaleString('en')} contacts, ${templates} templates, ${made} workflows, published.`,
  );
  return loaded;
}

/** Answers the ids of the lists that take every contact. */
async function loadLists(api: Api, lists: readonly SampleList[]): Promise<readonly string[]> {
  const known = await api.all<Named>('/lists');
  const takers: string[] = [];
  for (const { name, holdsAllContacts } of lists) {
    const list = known.find((one) => one.name === name) ?? (await api.post<Named>('/lists', { name }));
    if (holdsAllContacts) takers.push(list.id);
  }
  return takers;
}

/** The last contact stands for all: an import that broke off left it out, and is sent again. Answers how many were imported. */
async function loadContacts(api: Api, csv: string, externalIds: readonly string[], listIds: readonly string[]): Promise<number> {
  const { items } = await api.get<{ items: unknown[] }>(`/contacts?externalId=${encodeURIComponent(externalIds.at(-1) ?? '')}`);
  if (items.length > 0) return 0;
  for (const listId of listIds) {
    const { failedCount, failed } = await api.sendCsv<Import>(`/contacts/import?list=${listId}`, csv);
    const [first] = failed;
    if (first !== undefined) throw new Error(`${failedCount} contacts could not be imported; line ${first.line} of contacts.csv ${first.reason}`);
  }
  return externalIds.length;
}

/** Answers how many were missing. */
async function loadTemplates(api: Api, templates: readonly SampleTemplate[]): Promise<number> {
  const known = new Set((await api.all<Named>('/templates')).map(({ name }) => name));
  const missing = templates.filter(({ name }) => !known.has(name));
  for (const template of missing) await api.post('/templates', template);
  return missing.length;
}

/** Answers the workflow's id. One that was made and never published, by a start that broke off, is published now. */
async function loadWorkflow(api: Api, { workflow }: Journey, known: readonly Workflow[], { sinkUrl, say }: { sinkUrl: string; say: Log }): Promise<string> {
  const present = known.find(({ name }) => name === workflow.name);
  const { id, status } = present ?? (await api.post<Workflow>('/workflows', workflow));
  if (present !== undefined && present.archivedAt !== null) return id;
  const hasMoved = present !== undefined && (await pointAtSink(api, id, workflow.graph, sinkUrl));
  if (hasMoved) say(`${workflow.name}: the webhook sink has moved to ${sinkUrl}; a new version calls it there, runs under way still call the old address`);
  if (status === 'draft' || hasMoved) await api.post(`/workflows/${id}/publish`);
  return id;
}

/** Answers whether the draft had to be changed. Only the paths that the sample calls are looked for. */
async function pointAtSink(api: Api, id: string, sample: Graph, sinkUrl: string): Promise<boolean> {
  const stored = JSON.stringify((await api.get<{ graph: Graph }>(`/workflows/${id}`)).graph);
  let pointed = stored;
  for (const [, path = ''] of JSON.stringify(sample)
    .split(sinkUrl)
    .slice(1)
    .map((rest) => /^(\/[a-z]+)/.exec(rest) ?? [])) {
    pointed = pointed.replaceAll(new RegExp(`http://127\\.0\\.0\\.1:\\d+(?=${path}\\b)`, 'g'), sinkUrl);
  }
  if (pointed === stored) return false;
  await api.patch(`/workflows/${id}`, { graph: JSON.parse(pointed) as Graph });
  return true;
}
