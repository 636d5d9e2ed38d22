import { describe, expect, it } from 'vitest';
import type { Json } from '@onward/contracts/json';
import type { Scope } from '../../src/runtime/scope.js';
import { fill, fillMail, TemplateError } from '../../src/templates/fill.js';

function scopeWith(attributes: { [key: string]: Json }, more: Partial<Scope> = {}): Scope {
  return {
    contact: { id: 'c1', email: 'ann@example.test', externalId: null, attributes },
    event: null,
    context: {},
    steps: {},
    run: {},
    workflow: {},
    ...more,
  };
}

const NEVER = /undefined|null|NaN|\[object Object\]/;

describe('F45: rendering of missing values and escaping', () => {
  const title = 'R&D "night" 🎉';
  const template = {
    subject: 'Hi {{contact.attributes.name}} – {{event.title}}',
    html: '<p>{{contact.attributes.name}}</p>',
    text: '{{contact.attributes.name}}',
  };
  const rows: [label: string, attributes: { [key: string]: Json }, text: string, html: string][] = [
    ['absent', {}, '', ''],
    ['null', { name: null }, '', ''],
    ['empty', { name: '' }, '', ''],
    ['0', { name: 0 }, '0', '0'],
    ['false', { name: false }, 'false', 'false'],
    ['markup', { name: `O'Neill & <b>Co</b>` }, `O'Neill & <b>Co</b>`, 'O&#39;Neill &amp; &lt;b&gt;Co&lt;/b&gt;'],
    ['an object', { name: { a: 1 } }, '{"a":1}', '{&#34;a&#34;:1}'],
    ['a list', { name: ['x', 'y'] }, 'x, y', 'x, y'],
    ['a list of objects and nothing', { name: [{ a: 1 }, null, 0] }, '{"a":1}, , 0', '{&#34;a&#34;:1}, , 0'],
  ];
  it.each(rows)('F45: a name that is %s', (_, attributes, text, html) => {
    const filled = fillMail(template, scopeWith(attributes, { event: { title } }));
    expect(filled).toEqual({ subject: `Hi ${text} – ${title}`, html: `<p>${html}</p>`, text });
    for (const part of Object.values(filled)) expect(part).not.toMatch(NEVER);
  });

  it('F45: a declared default stands in for absent, null and empty, not for 0', () => {
    const template = '{{ contact.attributes.name | default: "friend" }}';
    expect(
      [{}, { name: null }, { name: '' }, { name: 0 }].map((attributes) => fill(template, scopeWith(attributes as { [key: string]: Json }), 'text')),
    ).toEqual(['friend', 'friend', 'friend', '0']);
  });

  it.each([
    '{{ nothing.at.all }}',
    '{{ contact.attributes.x.y.z }}',
    '{{ contact.attributes.x | append: contact.attributes.y }}',
    '{{ 1 | divided_by: 0 }}',
    '{{ "a" | times: 2 }}',
    '{{ contact.attributes.o | append: "" }}',
    '{{ contact.attributes.o | upcase }}',
    '{{ empty }}{{ blank }}{{ nil }}',
  ])('F45: %s makes none of the forbidden words', (template) => {
    expect(fill(template, scopeWith({ o: { a: null } }), 'text')).not.toMatch(/undefined|NaN|\[object Object\]/);
  });

  it('F45: a contact that is missing renders empty', () => {
    expect(fill('[{{ contact.email }}]', { ...scopeWith({}), contact: null }, 'text')).toBe('[]');
  });
});

describe('F46: header injection, the filling side', () => {
  it.each(['\r\n', '\n', '\r', '\u2028', '\u2029', '\u0085', '\0', '\v', '\f', '\u001b'])('F46: %j in a value cannot begin another header', (breaker) => {
    const filled = fill('Hi {{ contact.attributes.name }}', scopeWith({ name: `A${breaker}Bcc: x@evil.example.test` }), 'header');
    expect(filled).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
    expect(filled.replaceAll(' ', '')).toBe('HiABcc:x@evil.example.test');
  });

  it('F46: a line break in the template itself is taken out of a header as well', () => {
    expect(fill('one\r\ntwo', scopeWith({}), 'header')).toBe('one two');
  });
});

describe('kinds of output', () => {
  const nasty = '"><script>alert(1)</script>\\"&/?#\n';

  it('a URL takes values as one component each', () => {
    expect(fill('https://a.example.test/{{ contact.attributes.v }}?q={{ contact.email }}', scopeWith({ v: 'a b/c?d&e=é' }), 'url')).toBe(
      'https://a.example.test/a%20b%2Fc%3Fd%26e%3D%C3%A9?q=ann%40example.test',
    );
  });

  it('a URL with half a surrogate pair is still a URL', () => {
    expect(fill('{{ contact.attributes.v }}', scopeWith({ v: 'a\ud800' }), 'url')).toBe('a%EF%BF%BD');
  });

  it('JSON takes values as values, and inside a string as the inside of that string', () => {
    const template =
      '{"plain": {{ contact.attributes.v }}, "quoted": "<{{ contact.attributes.v }}>", "none": {{ contact.attributes.x }}, "also": "\\"{{ contact.attributes.x }}", "o": {{ contact.attributes.o }}, "n": "{{ contact.attributes.n }}"}';
    expect(JSON.parse(fill(template, scopeWith({ v: nasty, o: { a: [1] }, n: 5 }), 'json'))).toEqual({
      plain: nasty,
      quoted: `<${nasty}>`,
      none: null,
      also: '"',
      o: { a: [1] },
      n: '5',
    });
  });

  it('JSON that is none after filling is an error and not a text', () => {
    expect(() => fill('{"a": {{ contact.email }}', scopeWith({}), 'json')).toThrow(TemplateError);
  });

  it('HTML escapes what comes out of filters too, once', () => {
    expect(fill('{{ contact.attributes.v | append: "<i>" | escape }}', scopeWith({ v: '<b>&' }), 'html')).toBe('&lt;b&gt;&amp;&lt;i&gt;');
    expect(fill('{{ contact.attributes.o | json }}', scopeWith({ o: { a: '<' } }), 'html')).toBe('{&#34;a&#34;:&#34;&lt;&#34;}');
  });
});

describe('errors and limits', () => {
  it.each([
    ['an unknown filter', 'a\n{{ contact.email | shout }}', 2],
    ['a filter that is not offered', '{{ contact.email | raw }}', 1],
    ['an unknown tag', 'a\n\n{% launch %}', 3],
    ['a tag that reads templates', '{% render "x" %}', 1],
    ['a tag that is left open', '{% if contact %}', 1],
    ['an output that is left open', '{{ contact.email', 1],
  ])('%s is an error that names its line', (_, template, line) => {
    try {
      fill(template, scopeWith({}), 'text');
      expect.fail('should have thrown');
    } catch (error) {
      expect(error).toBeInstanceOf(TemplateError);
      expect((error as TemplateError).line).toBe(line);
    }
  });

  it.each([
    ['a loop over a million', '{% for i in (1..1000000) %}{{ i }}{% endfor %}'],
    ['loops in loops', '{% for a in (1..1000) %}{% for b in (1..1000) %}{% for c in (1..1000) %}x{% endfor %}{% endfor %}{% endfor %}'],
    ['a text that doubles', `{% assign a = "0123456789" %}${'{% assign a = a | append: a %}'.repeat(30)}{{ a }}`],
    ['a long output', `{% for i in (1..1000) %}${'x'.repeat(2_000)}{% endfor %}`],
    ['a template that is too long', 'x'.repeat(200_001).concat('{{ a }}')],
    ['deep nesting', `${'{% if contact %}'.repeat(20_000)}`],
  ])('%s ends as a TemplateError', (_, template) => {
    expect(() => fill(template, scopeWith({}), 'text')).toThrow(TemplateError);
  });

  it.each([
    ['empty loops in loops', '{% for i in (1..1000) %}{% for j in (1..1000) %}{% for k in (1..1000) %}{% endfor %}{% endfor %}{% endfor %}'],
    ['JSON of JSON over and over', '{% for i in (1..1000) %}{% assign x = contact.attributes.big | json | json | json | json %}{% endfor %}'],
    ['JSON of one text many times', `{% assign l = contact.attributes.list %}${'{% assign l = l | concat: l %}'.repeat(14)}{% assign x = l | json %}`],
    ['one text many times', `{% assign l = contact.attributes.list %}${'{% assign l = l | concat: l %}'.repeat(14)}{{ l }}`],
  ])('%s ends as a TemplateError before it holds up the process', (_, template) => {
    const big = 'x'.repeat(100_000);
    const scope = scopeWith({ big, list: [big] });
    const before = process.cpuUsage();
    expect(() => fill(template, scope, 'text')).toThrow(TemplateError);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(300);
  });

  it.each([
    [59_000, true],
    [61_000, false],
  ])('%i empty turns are filled or refused by their number, whatever the machine: %s', (turns, isFilled) => {
    const template = `{% for i in (1..${turns - 1}) %}{% endfor %}done`;
    const filling = () => fill(template, scopeWith({}), 'text');
    if (isFilled) expect(filling()).toBe('done');
    else expect(filling).toThrow(/more than 60,000 steps/);
  });

  it('5,000 turns of an honest table are filled', () => {
    const rows = Array.from({ length: 5_000 }, (_, n) => ({ n, name: `row ${n}` }));
    const template =
      '{% for row in contact.attributes.rows %}{% if row.n > 10 %}<b>{{ row.n }}</b>{% endif %}{{ row.name | upcase }};{{ forloop.index }}{% endfor %}';
    expect(fill(template, scopeWith({ rows }), 'html')).toMatch(/<b>4999<\/b>ROW 4999;5000$/);
  });

  it('a template without Liquid comes out as it is', () => {
    expect(fill('<p>{ "a": 1 } & %} }}</p>', scopeWith({}), 'html')).toBe('<p>{ "a": 1 } & %} }}</p>');
  });

  it('filling leaves the scope as it was', () => {
    const scope = scopeWith({ list: [3, 1, 2], o: { a: 1 } });
    const before = structuredClone(scope);
    fill('{% assign contact = "x" %}{% assign l = contact.attributes.list | sort | reverse %}{{ l }}', scope, 'text');
    expect(scope).toEqual(before);
  });
});
