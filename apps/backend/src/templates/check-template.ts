import { readEmailAddress } from '../contacts/email-address.js';
import type { FieldError } from '../http/problem.js';
import { parseTemplate } from './parse-template.js';
import { TemplateError } from './template-error.js';

export type TemplateParts = { subject: string; html: string | null; text: string | null; replyTo: string | null };

/** What a template may read (runtime/scope.ts), and what a contact has. */
const ROOTS = ['contact', 'event', 'context', 'steps', 'run', 'workflow'];
const CONTACT_FIELDS = ['id', 'externalId', 'email', 'attributes', 'tags', 'lists'];

/**
 * Reads every part as sending would. `errors` name the part and the line and forbid saving; `warnings` are names that nothing ever
 * fills, which come out empty and are most likely slips.
 */
export function checkTemplate(parts: TemplateParts): { errors: FieldError[]; warnings: FieldError[] } {
  const errors: FieldError[] = [];
  const warnings: FieldError[] = [];
  for (const [path, text] of Object.entries(parts)) {
    if (text === null) continue;
    try {
      const { roots, paths } = parseTemplate(text);
      for (const root of roots)
        if (!ROOTS.includes(root)) warnings.push({ path, message: `"${root}" is not declared; a template can read ${ROOTS.join(', ')}` });
      for (const field of contactFields(paths)) {
        if (!CONTACT_FIELDS.includes(field))
          warnings.push({ path, message: `"contact.${field}" is never filled; an attribute is contact.attributes.${field}` });
      }
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      errors.push({ path, message: error.message });
    }
  }
  const { replyTo } = parts;
  if (replyTo !== null && !replyTo.includes('{') && readEmailAddress(mailboxAddress(replyTo)) === null)
    errors.push({ path: 'replyTo', message: 'is not a mail address' });
  if (parts.html === null && parts.text === null) errors.push({ path: 'html', message: 'a template needs html or text' });
  return { errors, warnings };
}

function contactFields(paths: string[][]): Set<string> {
  return new Set(paths.flatMap(([root, field]) => (root === 'contact' && field !== undefined ? [field] : [])));
}

/** `Name <address>` or the address alone; how a name is written is read strictly when the mail is prepared. */
function mailboxAddress(mailbox: string): string {
  return /^[^<>]*<([^<>]*)>$/.exec(mailbox.trim())?.[1] ?? mailbox.trim();
}
