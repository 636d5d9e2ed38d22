import { z } from 'zod';
import { originText } from '../targets/origin-text.js';

/** As it stands in a text: `{{ secrets.name }}`. */
export const SECRET_NAME = /^[a-z][a-z0-9_]{0,62}$/;
export const secretNameSchema = z.string().regex(SECRET_NAME, 'must be 1 to 63 of a–z, 0–9 and _, a letter first');

export const MAX_SECRET_BYTES = 8_192;
export const secretValueSchema = z
  .string()
  .min(1, 'must not be empty')
  .refine((value) => Buffer.byteLength(value) <= MAX_SECRET_BYTES, `must have at most ${MAX_SECRET_BYTES} bytes`);

/** Where a secret may go, each once, as `URL.origin` has them. */
export const allowedOriginsSchema = z
  .array(originText)
  .min(1)
  .max(50)
  .transform((origins) => [...new Set(origins)]);
