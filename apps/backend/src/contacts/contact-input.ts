import type { Json } from '@onward/contracts/json';
import { z } from 'zod';
import { readEmailAddress } from './email-address.js';

export const MAX_ATTRIBUTES = 200;
const MAX_ATTRIBUTE_NAME = 100;
export const MAX_TAG = 100;

/** Line breaks and other control characters, which no name has. */
const CONTROLS = /[\p{Cc}\u2028\u2029]/u;

function nameSchema(maxLength: number) {
  return z
    .string()
    .trim()
    .min(1)
    .max(maxLength)
    .refine((text) => !CONTROLS.test(text), 'must hold no line break and no control character');
}

export const emailSchema = z.string().transform((text, ctx): string => {
  const address = readEmailAddress(text);
  if (address !== null) return address;
  ctx.addIssue({ code: 'custom', message: 'is not a mail address that can be used' });
  return z.NEVER;
});
export const externalIdSchema = nameSchema(200);
export const tagSchema = nameSchema(MAX_TAG);
export const listNameSchema = nameSchema(200);

/** Names of attributes stay as they are written. `__proto__` is none: code that copies objects by assignment would trip over it. */
export const attributeNameSchema = z
  .string()
  .min(1)
  .max(MAX_ATTRIBUTE_NAME)
  .refine((name) => name !== '__proto__' && !CONTROLS.test(name), 'cannot be the name of an attribute');

/** JSON that came through parse-json.ts: its depth is bounded and its values are not looked at again. */
const parsedJson = z.unknown() as z.ZodType<Json>;

/** Attributes to merge into those the contact has; null removes one. */
export const attributesSchema = z
  .record(attributeNameSchema, parsedJson)
  .refine((attributes) => Object.keys(attributes).length <= MAX_ATTRIBUTES, `must hold at most ${MAX_ATTRIBUTES} attributes`);

const contactFields = { externalId: externalIdSchema.optional(), email: emailSchema.optional(), attributes: attributesSchema.optional() };

const hasIdentity = ({ externalId, email }: { externalId?: string | undefined; email?: string | undefined }): boolean =>
  externalId !== undefined || email !== undefined;
const WITHOUT_IDENTITY = 'needs an externalId or an email';

/** Who is meant, and what is to be merged in. At least one of the two identities is given; an e-mail is in the form of email-address.ts. */
export const contactInputSchema = z.strictObject(contactFields).refine(hasIdentity, WITHOUT_IDENTITY);
export type ContactInput = z.infer<typeof contactInputSchema>;

/** The same, with tags to add. */
export const taggedContactSchema = z.strictObject({ ...contactFields, tags: z.array(tagSchema).max(100).optional() }).refine(hasIdentity, WITHOUT_IDENTITY);
