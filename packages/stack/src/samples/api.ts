/**
 * Onward's HTTP API as the samples use it: with a key, JSON both ways, lists read to their end.
 *
 * An answer is taken for what its caller says it is; the API keeps its own shape. An answer outside 2xx is thrown as
 * ApiRefusal with the sentence of its problem details (RFC 9457). Nothing is asked twice.
 */

export class ApiRefusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = 'ApiRefusal';
  }
}

export type Api = {
  get<Answer>(path: string): Promise<Answer>;
  /** Undefined when there is no such thing. */
  find<Answer>(path: string): Promise<Answer | undefined>;
  /** Every item of a list, page after page. */
  all<Item>(path: string): Promise<readonly Item[]>;
  post<Answer>(path: string, body?: unknown): Promise<Answer>;
  patch<Answer>(path: string, body: unknown): Promise<Answer>;
  sendCsv<Answer>(path: string, csv: string): Promise<Answer>;
};

export type ApiAccess = { readonly apiUrl: string; readonly apiKey: string; readonly signal: AbortSignal };

const ONE_ANSWER_WITHIN_MS = 30_000;
const PAGE_SIZE = 200;

/** Paths are below `/api/v1`. */
export function openApi({ apiUrl, apiKey, signal }: ApiAccess): Api {
  const ask = async <Answer>(method: string, path: string, body?: { type: string; text: string }): Promise<Answer> => {
    const response = await fetch(`${apiUrl}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, accept: 'application/json', ...(body && { 'content-type': body.type }) },
      ...(body && { body: body.text }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(ONE_ANSWER_WITHIN_MS)]),
    });
    const text = await response.text();
    if (!response.ok) throw new ApiRefusal(response.status, `${method} ${path} was answered ${response.status}: ${detailOf(text)}`);
    return JSON.parse(text) as Answer;
  };
  const json = (value: unknown) => ({ type: 'application/json', text: JSON.stringify(value) });
  const get = <Answer>(path: string) => ask<Answer>('GET', path);

  return {
    get,
    find: async (path) => {
      try {
        return await get(path);
      } catch (error) {
        if (error instanceof ApiRefusal && error.status === 404) return undefined;
        throw error;
      }
    },
    all: async <Item>(path: string) => {
      const items: Item[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const query = `limit=${PAGE_SIZE}${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
        const page: { items: Item[]; nextCursor: string | null } = await get(`${path}${path.includes('?') ? '&' : '?'}${query}`);
        items.push(...page.items);
        cursor = page.nextCursor;
      }
      return items;
    },
    post: (path, body) => ask('POST', path, body === undefined ? undefined : json(body)),
    patch: (path, body) => ask('PATCH', path, json(body)),
    sendCsv: (path, csv) => ask('POST', path, { type: 'text/csv', text: csv }),
  };
}

function detailOf(text: string): string {
  try {
    const { detail, title } = JSON.parse(text) as { detail?: unknown; title?: unknown };
    return [detail, title, text].find((one) => typeof one === 'string')?.slice(0, 500) ?? '';
  } catch {
    return text.slice(0, 500);
  }
}
