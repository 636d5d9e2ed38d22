import type { Json } from '@onward/contracts/json';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { fillMail } from '../../src/templates/fill.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

type Template = {
  id: string;
  name: string;
  subject: string;
  html: string | null;
  text: string | null;
  replyTo: string | null;
  isTransactional: boolean;
  revision: number;
  warnings: { path: string; message: string }[];
};
type Problem = { errors: { path: string; message: string }[] };

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
});
afterAll(() => backend.close());

const make = (body: object) => backend.api<Template>('POST', '/templates', { name: `t${Math.random()}`, subject: 'Hi', text: 'Hello', ...body });

it('templates are made, read, listed, changed and deleted; a name belongs to one', async () => {
  const made = await make({ name: 'welcome', subject: 'Hi {{ contact.attributes.name }}', html: '<p>Hi</p>', text: null, replyTo: 'Team <team@example.test>' });
  expect(made).toMatchObject({ status: 201, body: { name: 'welcome', isTransactional: false, revision: 1, text: null, warnings: [] } });
  const path = `/templates/${made.body.id}`;
  expect((await make({ name: 'welcome' })).status).toBe(409);
  const { warnings: _warnings, ...stored } = made.body;
  expect((await backend.api('GET', path)).body).toEqual(stored);
  expect(await backend.api('PATCH', path, { text: 'Hello', isTransactional: true }, { headers: { 'if-match': '"1"' } })).toMatchObject({
    status: 200,
    body: { text: 'Hello', html: '<p>Hi</p>', isTransactional: true, revision: 2 },
  });
  expect((await backend.api('PATCH', path, { text: 'lost' }, { headers: { 'if-match': '"1"' } })).status).toBe(409);
  await make({ name: 'other' });
  expect((await backend.api('PATCH', path, { name: 'other' })).status).toBe(409);
  expect((await backend.api<{ items: Template[] }>('GET', '/templates')).body.items.map(({ name }) => name)).toEqual(['other', 'welcome']);
  expect((await backend.api('DELETE', path)).status).toBe(204);
  for (const method of ['GET', 'DELETE']) expect((await backend.api(method, path)).status).toBe(404);
  expect((await backend.api('PATCH', path, {})).status).toBe(404);
});

it('F45: a variable that is declared nowhere is flagged when the template is saved', async () => {
  const { status, body } = await make({
    subject: '{{ name }}',
    html: '{% assign x = contact.first_name %}{{ x }}{{ contact.attributes.first_name }}{% for t in contact.tags %}{{ t }}{% endfor %}',
    text: '{{ event.a }}{{ steps.s.b }}{{ run.id }}{{ workflow.name }}{{ context.event.id }}',
  });
  expect(status).toBe(201);
  expect(body.warnings).toEqual([
    { path: 'subject', message: expect.stringContaining('"name"') },
    { path: 'html', message: expect.stringContaining('contact.attributes.first_name') },
  ]);
});

it.each([
  [{ subject: '{{ x | shout }}' }, 'subject', 'line 1'],
  [{ html: '<p>\n{{ x | raw }}</p>' }, 'html', 'line 2'],
  [{ text: 'a\nb\n{% if x %}' }, 'text', 'line 3'],
  [{ html: '{% include "x" %}' }, 'html', 'include'],
  [{ replyTo: 'nobody' }, 'replyTo', 'mail address'],
  [{ replyTo: 'a@example.test\r\nBcc: x@example.test' }, 'replyTo', 'mail address'],
  [{ text: null }, 'html', 'html or text'],
  [{ extra: 1 }, 'extra', 'not known'],
] as const)('a template with %j is refused at %s', async (part, path, words) => {
  const { status, body } = await make(part);
  expect(status).toBe(400);
  expect((body as unknown as Problem).errors[0]).toEqual({ path, message: expect.stringContaining(words) });
});

it('a change that would break a template is refused and the template stays', async () => {
  const { body } = await make({ text: 'good' });
  expect((await backend.api('PATCH', `/templates/${body.id}`, { text: '{{' })).status).toBe(400);
  expect((await backend.api('PATCH', `/templates/${body.id}`, { text: null })).status).toBe(400);
  expect((await backend.api('GET', `/templates/${body.id}`)).body).toMatchObject({ text: 'good', revision: 1 });
});

it.each([[undefined], [null], [''], [0], [`O'Neill & <b>Co</b>`], [{ a: 1 }], [['x', 'y']]])(
  'F45: the preview is what would be sent, for a name of %j',
  async (name) => {
    const contact = (
      await backend.api<{ id: string; attributes: object }>('POST', '/contacts', {
        externalId: `c${JSON.stringify(name)}`,
        attributes: name === undefined ? {} : { name },
      })
    ).body;
    const parts = {
      subject: 'Hi {{contact.attributes.name}} – {{event.title}}',
      html: '<p>{{contact.attributes.name}}</p>',
      text: '{{contact.attributes.name}}',
    };
    const template = (await make({ ...parts, replyTo: '{{ event.owner }}' })).body;
    const event = { title: 'R&D "night" 🎉', owner: 'a@example.test\r\nBcc: x@evil.example.test' };
    const { status, body } = await backend.api<Record<string, string>>('POST', `/templates/${template.id}/preview`, { contactId: contact.id, event });
    expect(status).toBe(200);
    const attributes: { [key: string]: Json } = name === undefined || name === null ? {} : { name };
    const sent = fillMail(parts, { contact: { attributes }, event, context: {}, steps: {}, run: {}, workflow: {} });
    expect(body).toEqual({ ...sent, replyTo: 'a@example.test Bcc: x@evil.example.test' });
    for (const part of Object.values(body)) expect(part).not.toMatch(/undefined|null|NaN|\[object Object\]/);
  },
);

it('a preview needs neither contact nor event, refuses an unknown contact, and says what cannot be filled', async () => {
  const template = (await make({ text: '[{{ contact.email }}{{ event.x }}]' })).body;
  expect(await backend.api('POST', `/templates/${template.id}/preview`, {})).toMatchObject({ status: 200, body: { text: '[]', html: null, replyTo: null } });
  expect(await backend.api('POST', `/templates/${template.id}/preview`, { contactId: '0198c0de-0000-7000-8000-000000000000' })).toMatchObject({
    status: 422,
    body: { errors: [{ path: 'contactId' }] },
  });
  const endless = (await make({ text: '{% for a in (1..100000000) %}x{% endfor %}' })).body;
  expect((await backend.api('POST', `/templates/${endless.id}/preview`, {})).status).toBe(422);
});
