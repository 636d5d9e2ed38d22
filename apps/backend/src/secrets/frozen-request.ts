import type { OutboundRequest } from '@onward/contracts/outbound';

/**
 * What a placeholder in a frozen request stands for: the secret of that name, whose value is read anew for every attempt; or, with `sealed`
 * (seal-value.ts, base64, bound to the placeholder), a value of this request alone, such as a header written without a secret.
 */
export type FrozenSecret = { placeholder: string; name: string; sealed?: string };

/** The request of a step as it is kept: no value of a secret stands in it. `secrets` is missing when it has none. */
export type FrozenRequest = OutboundRequest & { secrets?: FrozenSecret[] };
