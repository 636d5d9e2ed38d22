import { z } from 'zod';

/** As it stands in a text: `{{ secrets.name }}`. */
export const SECRET_NAME = /^[a-z][a-z0-9_]{0,62}$/;
export const secretNameSchema = z.string().regex(SECRET_NAME, 'must be 1 to 63 of a–z, 0–9 and _, a letter first');

export const MAX_SECRET_BYTES = 8_192;
export const secretValueSchema = z
  .string()
  .min(1, 'must not be empty')
  .refine((value) => Buffer.byteLength(value) <= MAX_SECRET_BYTES, `must have at most ${MAX_SECRET_BYTES} bytes`);

const originSchema = z
  .string()
  .max(300)
  .transform((text, ctx) => {
    const origin = readOrigin(text);
    if (origin !== null) return origin;
    ctx.addIssue({ code: 'custom', message: 'must be scheme, host and port of a target and nothing else, such as https://api.example.com' });
    return z.NEVER;
  });

/** Where a secret may go, each once, as `URL.origin` has them. */
export const allowedOriginsSchema = z
  .array(originSchema)
  .min(1)
  .max(50)
  .transform((origins) => [...new Set(origins)]);

/** The origin that a text names, or null when it names more, less or something else. */
function readOrigin(text: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return null;
  return url.href === `${url.origin}/` ? url.origin : null;
}
