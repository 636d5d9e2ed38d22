/** What the webhook sink records, the ways a target behaves that it can play, and how a program asks for one over HTTP. */

export type WebhookSinkMode =
  /** 200 with a small JSON body. */
  | { readonly kind: 'ok' }
  /** 500. */
  | { readonly kind: 'fail' }
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  /** Takes the request and never answers. */
  | { readonly kind: 'hang' }
  /** 200 at once, then `bytes` bytes, one every `intervalMs`. */
  | { readonly kind: 'drip'; readonly bytes: number; readonly intervalMs: number }
  /** Takes the request, then resets the connection (TCP RST) without an answer. */
  | { readonly kind: 'reset' }
  /** Promises 1,000 bytes, sends some and cuts the connection. */
  | { readonly kind: 'cut' }
  /** `status` (200 unless given) after `delayMs`. */
  | { readonly kind: 'late'; readonly delayMs: number; readonly status?: number };

/** Decides for each request; `nth` counts them from 1. */
export type WebhookSinkRule = (request: SinkRequest, nth: number) => WebhookSinkMode;

export type SinkRequest = {
  /** When its headers were here; UTC, ISO 8601. */
  readonly at: string;
  readonly method: string;
  /** Path and query as sent. */
  readonly path: string;
  /** Lower-case names; a header sent twice has its values joined by Node's rules. */
  readonly headers: Readonly<Record<string, string>>;
  /** Names and values as sent, in order. */
  readonly rawHeaders: readonly string[];
  /** What has arrived of the body so far. */
  readonly body: Buffer;
  /** Whether the body is here to its end. */
  readonly isComplete: boolean;
  /** What became of its answer; undefined until it is sent or the connection closed. */
  readonly answer: SinkAnswer | undefined;
};

/** `none`: the connection closed without one. `isWhole`: whether the body went out to its end. */
export type SinkAnswer = { readonly kind: 'none' } | { readonly kind: 'status'; readonly status: number; readonly isWhole: boolean };

/** `kind` with what it needs: `status`, `header` (repeatable, Name:Value), `body`; `bytes`, `intervalMs`; `delayMs`. */
export function readWebhookSinkMode(query: URLSearchParams): WebhookSinkMode | undefined {
  const kind = query.get('kind');
  const number = (name: string, fallback: number): number => {
    const value = Number(query.get(name) ?? fallback);
    return Number.isFinite(value) && value >= 0 ? value : fallback;
  };
  switch (kind) {
    case 'ok':
    case 'fail':
    case 'hang':
    case 'reset':
    case 'cut':
      return { kind };
    case 'late':
      return { kind, delayMs: number('delayMs', 1_000) };
    case 'drip':
      return { kind, bytes: number('bytes', 100), intervalMs: number('intervalMs', 100) };
    case 'status': {
      const status = number('status', 0);
      if (!Number.isInteger(status) || status < 200 || status > 599) return undefined;
      const headers = Object.fromEntries(query.getAll('header').flatMap((line) => [splitHeader(line)].filter((pair) => pair !== undefined)));
      return { kind, status, headers, body: query.get('body') ?? '' };
    }
    default:
      return undefined;
  }
}

function splitHeader(line: string): [string, string] | undefined {
  const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):\s*([\x20-\x7e]*)$/.exec(line) ?? [];
  return name === undefined || value === undefined ? undefined : [name, value];
}
