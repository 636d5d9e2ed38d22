import { z } from 'zod';

/** The origin of an http or https address (`URL.origin`: scheme, host and port, as WHATWG URL writes them), or null when the text is more or other than that. */
export function readOrigin(text: string): string | null {
  const url = URL.parse(text);
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) return null;
  const isMore = url.username !== '' || url.password !== '' || url.pathname !== '/' || url.search !== '' || url.hash !== '';
  return isMore ? null : url.origin;
}

/** A written origin, normalised; refused when it is none. */
export const originText = z
  .string()
  .max(300)
  .transform((text, check): string => {
    const origin = readOrigin(text);
    if (origin !== null) return origin;
    check.addIssue({ code: 'custom', message: 'is not an origin such as https://api.example.com' });
    return z.NEVER;
  });
