import { type Template as Node, LiquidError } from 'liquidjs';
import { engine, MAX_TEMPLATE_CHARACTERS } from './liquid-engine.js';
import { TemplateError } from './template-error.js';

/** `roots`: first names of what it reads from the scope. `paths`: the same with what follows, as far as it is written plainly. */
export type ParsedTemplate = { nodes: Node[]; roots: string[]; paths: string[][] };

/** The templates used last, the latest at the end. Bounded by their length in characters, the parsed form being a multiple of it. */
const parsed = new Map<string, ParsedTemplate>();
const MAX_KEPT_CHARACTERS = 4_000_000;
let keptCharacters = 0;

/** Reads a template. Throws TemplateError with the line for anything that is not Liquid or not offered here. */
export function parseTemplate(text: string): ParsedTemplate {
  const known = parsed.get(text);
  if (known) {
    parsed.delete(text);
    parsed.set(text, known);
    return known;
  }
  const read = parse(text);
  parsed.set(text, read);
  keptCharacters += text.length;
  for (const oldest of parsed.keys()) {
    if (keptCharacters <= MAX_KEPT_CHARACTERS) break;
    parsed.delete(oldest);
    keptCharacters -= oldest.length;
  }
  return read;
}

function parse(text: string): ParsedTemplate {
  if (text.length > MAX_TEMPLATE_CHARACTERS) throw new TemplateError(`The template is longer than ${MAX_TEMPLATE_CHARACTERS.toLocaleString('en')} characters`);
  try {
    const nodes = engine.parse(text);
    const paths = engine.globalVariableSegmentsSync(nodes).map((segments) => segments.map(String));
    return { nodes, roots: engine.globalVariablesSync(nodes), paths };
  } catch (error) {
    throw templateErrorOf(error);
  }
}

/** An error of the engine in our words; anything else, such as a full stack of nested blocks, is a template's fault as well. */
export function templateErrorOf(error: unknown): TemplateError {
  if (error instanceof TemplateError) return error;
  const cause = LiquidError.is(error) ? error.originalError : undefined;
  if (cause instanceof TemplateError) return cause;
  const message = error instanceof Error ? error.message : String(error);
  const [, said = message, line] = /^([\s\S]*?)(?:, file:[\s\S]*?)?, line:(\d+), col:\d+$/.exec(message) ?? [];
  return new TemplateError(said.slice(0, 500), line === undefined ? null : Number(line));
}
