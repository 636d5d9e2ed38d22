import { Context, toValueSync } from 'liquidjs';
import type { Scope } from '../runtime/scope.js';
import { limitWork } from './limit-work.js';
import { engine } from './liquid-engine.js';
import { parseTemplate, templateErrorOf } from './parse-template.js';
import { TemplateError } from './template-error.js';
import type { Template } from './template.entity.js';
import { oneLine, type OutputKind, TextEmitter } from './text-emitter.js';
import { bare } from './value-text.js';

export { TemplateError };
export type { OutputKind };

/** What a filter leaves of a character it has cut in half. Postgres takes no such text. */
const LONE_SURROGATE = /\p{Surrogate}/gu;

/** Is there anything in the text that `fill` would look at? */
export function isFilled(text: string): boolean {
  return text.includes('{{') || text.includes('{%');
}

/**
 * Fills a template with what the scope holds, for one kind of output (text-emitter.ts). Missing values are empty. The template can read
 * the scope and nothing else: no inherited property, no file, no setting of the process, but for `'now' | date`, which is real time in UTC.
 * Throws TemplateError, and never anything else, for a template that cannot be read, or that comes to too much; `json` also when what
 * comes out is not JSON.
 */
export function fill(template: string, scope: Scope, kind: OutputKind): string {
  const filled = isFilled(template) ? render(template, scope, kind).replace(LONE_SURROGATE, '\ufffd') : template;
  if (kind === 'header') return oneLine(filled);
  if (kind === 'json') checkIsJson(filled);
  return filled;
}

/** Fills the parts of a mail template. A part that is not there stays null. */
export function fillMail(template: Pick<Template, 'subject' | 'html' | 'text'>, scope: Scope): { subject: string; html: string | null; text: string | null } {
  return {
    subject: fillPart('subject', template.subject, scope, 'header').trim(),
    html: template.html === null ? null : fillPart('html', template.html, scope, 'html'),
    text: template.text === null ? null : fillPart('text', template.text, scope, 'text'),
  };
}

function fillPart(part: string, template: string, scope: Scope, kind: OutputKind): string {
  try {
    return fill(template, scope, kind);
  } catch (error) {
    throw error instanceof TemplateError ? new TemplateError(`${part}: ${error.message}`) : error;
  }
}

function render(template: string, scope: Scope, kind: OutputKind): string {
  const { nodes, roots } = parseTemplate(template);
  const seen = Object.create(null) as Record<string, unknown>;
  for (const root of roots) if (Object.hasOwn(scope, root)) seen[root] = bare(scope[root as keyof Scope]);
  const context = new Context(seen, engine.options, { sync: true }, { liquid: engine });
  const emitter = new TextEmitter(kind);
  limitWork(context);
  try {
    toValueSync(engine.renderer.renderTemplates(nodes, context, emitter));
    return emitter.buffer;
  } catch (error) {
    throw templateErrorOf(error);
  }
}

function checkIsJson(text: string): void {
  try {
    JSON.parse(text);
  } catch {
    throw new TemplateError('What the template is filled to is not JSON');
  }
}
