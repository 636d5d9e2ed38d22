import { z } from 'zod';

/** The origin of an http or https address (`URL.origin`: scheme, host and port, as WHATWG URL writes them), or null when the text is more or other than that. */
export function readOrigin(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  // A star is a character that URL allows in a host, and nobody who writes one means that.
  if (url.hostname.includes('*') || (url.protocol !== 'http:' && url.protocol !== 'https:')) return null;
  return url.href === `${url.origin}/` ? url.origin : null;
}

/** A written origin, normalised; refused when it is none. */
export const originText = z
  .string()
  .max(300)
  .transform((text, check): string => {
    const origin = readOrigin(text);
    if (origin !== null) return origin;
    check.addIssue({ code: 'custom', message: 'must be scheme, host and port of a target and nothing else, such as https://api.example.com' });
    return z.NEVER;
  });
