import { Liquid } from 'liquidjs';
import { keepSecrets } from './keep-secrets.js';
import { jsonText } from './value-text.js';

/**
 * The one Liquid engine. It knows values, conditions, loops and the filters named here, and nothing that reads a file, another template
 * or a property a value has only inherited. What is not named does not exist: a template that uses it is refused when it is parsed.
 * Missing on purpose: `raw`, which would print a value unescaped, `capture`, `echo`, `liquid`, `cycle`, `tablerow`, `render`,
 * `include`, `layout`, and the filters that evaluate an expression or run a costly pattern.
 */
const TAGS = ['assign', 'break', 'case', 'comment', 'continue', 'for', 'if', 'raw', 'unless', '#'];
const FILTERS = [
  ...['append', 'capitalize', 'downcase', 'lstrip', 'prepend', 'remove', 'remove_first', 'replace', 'replace_first', 'rstrip', 'split'],
  ...['strip', 'strip_newlines', 'truncate', 'truncatewords', 'upcase', 'slice', 'size'],
  ...['compact', 'concat', 'first', 'join', 'last', 'map', 'reverse', 'sort', 'sort_natural', 'sum', 'uniq', 'where'],
  ...['abs', 'at_least', 'at_most', 'ceil', 'divided_by', 'floor', 'minus', 'modulo', 'plus', 'round', 'times'],
  ...['date', 'default', 'url_encode'],
];

/** Characters of one template. */
export const MAX_TEMPLATE_CHARACTERS = 200_000;
/** Characters and array places that the loops and filters of one filling may make. Its steps are bounded in limit-work.ts, its length in text-emitter.ts. */
const MEMORY_LIMIT = 2_000_000;

export const engine = createEngine();

function createEngine(): Liquid {
  const liquid = new Liquid({
    ownPropertyOnly: true,
    strictFilters: true,
    strictVariables: false,
    templates: {},
    cache: false,
    timezoneOffset: 0,
    locale: 'en-US',
    dateFormat: '%Y-%m-%d',
    parseLimit: MAX_TEMPLATE_CHARACTERS,
    memoryLimit: MEMORY_LIMIT,
    outputEscape: (value: unknown) => new Shown(value) as unknown as string,
  });
  for (const name of Object.keys(liquid.tags)) if (!TAGS.includes(name)) delete liquid.tags[name];
  for (const name of Object.keys(liquid.filters)) if (!FILTERS.includes(name)) delete liquid.filters[name];
  liquid.registerFilter('json', function (value: unknown) {
    const text = jsonText(value ?? null, MEMORY_LIMIT);
    this.context.memoryLimit.use(text.length);
    return text;
  });
  // Every kind of output escapes its values by itself; these are taken, for habit's sake, and add nothing.
  liquid.registerFilter('escape', (value: unknown) => value);
  liquid.registerFilter('escape_once', (value: unknown) => value);
  // `default` is the one filter that may leave out what it is given.
  for (const [name, filter] of Object.entries(liquid.filters)) if (name !== 'default') liquid.filters[name] = keepSecrets(name, filter);
  return liquid;
}

/** A value on its way out, told apart from the template's own text, so that the emitter can escape it by the kind of output. */
export class Shown {
  constructor(readonly value: unknown) {}
}
