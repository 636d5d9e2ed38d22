import { failed, type Outcome } from '@onward/contracts/outcome';
import { z } from 'zod';
import { readEmailAddress } from '../../contacts/email-address.js';
import type { Tx } from '../../database/sql.js';
import { mailKey } from '../../mail/mail-key.js';
import { outcomeOf } from '../../mail/mail-outcome.js';
import type { Mailbox, Message } from '../../mail/message.entity.js';
import { prepareMessage, reopenMessage } from '../../mail/prepare-message.js';
import { noteBadAddress } from '../../mail/settle-message.js';
import { TemplateError } from '../../templates/fill.js';
import { Template } from '../../templates/template.entity.js';
import type { Action, ActionResult, Step } from '../action.js';

const configSchema = z.strictObject({
  /** The id or the name of a template. */
  template: z.string().trim().min(1).max(200),
});
type Config = z.infer<typeof configSchema>;

/**
 * Sends a mail to the contact. The action only prepares the message; the run rests until the mail gateway has handed it over to SMTP, or
 * until it is left out. Whether the mail is marketing or transactional is the template's.
 */
export function sendMail({ from }: { from: Mailbox }): Action<Config> {
  return {
    type: 'SEND_MAIL',
    config: configSchema,
    needsContact: true,
    readsTemplates: true,
    performedBy: 'backend',
    reentry: 'The message is a row keyed by run and seq: a second entry finds it. One that failed is made ready again, with the same Message-ID.',
    execute: (step) => execute(step, from),
  };
}

async function execute(step: Step<Config>, from: Mailbox): Promise<ActionResult> {
  const { tx, runId, seq, config, contact, scope } = step;
  const earlier = await reopenMessage(tx, { runId, seq });
  if (earlier) return answer(earlier);

  if (contact === null) return { kind: 'outcome', outcome: failed('contact_missing', 'The mail has nobody to go to: the run has no contact') };
  if (contact.email === null) return { kind: 'outcome', outcome: failed('address_invalid', 'The contact has no mail address') };
  const address = readEmailAddress(contact.email);
  if (address === null) {
    await noteBadAddress(tx, contact.id, contact.email, 'The address is not a mail address');
    return { kind: 'outcome', outcome: failed('address_invalid', 'The address of the contact is not a mail address') };
  }
  const template = await findTemplate(tx, config.template);
  if (template === null) return { kind: 'outcome', outcome: failed('template_missing', `There is no template "${config.template}"`) };

  try {
    return answer(await prepareMessage(tx, { runId, seq, contactId: contact.id, address, template, scope, from }));
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return { kind: 'outcome', outcome: failed('template_error', `Template "${template.name}": ${error.message}`), input: { template: template.id } };
  }
}

function answer(message: Message): ActionResult {
  const { id, to, subject, templateId } = message;
  const rests: Outcome = { kind: 'suspended', key: mailKey(id), why: `waiting for the mail to ${to.address} to be handed over` };
  return { kind: 'outcome', outcome: outcomeOf(message) ?? rests, input: { template: templateId, to: to.address, subject } };
}

/** A name may look like an id; the id is asked first. */
async function findTemplate(tx: Tx, named: string): Promise<Template | null> {
  const byId = z.uuid().safeParse(named).success ? await tx.findOneBy(Template, { id: named }) : null;
  return byId ?? (await tx.findOneBy(Template, { name: named }));
}
