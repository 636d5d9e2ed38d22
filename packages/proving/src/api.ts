/** The HTTP API as a client of an installation uses it. */
export type Answer = { status: number; body: Record<string, unknown> };

export type Api = {
  url: string;
  call(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Like `call`, and throws unless the answer is a 2xx. */
  must(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  /** The status of the readiness probe. */
  ready(): Promise<number>;
};

const TIMEOUT_MS = 20_000;

export function createApi(origin: string, key: string): Api {
  const call = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const response = await fetch(`${origin}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>) };
  };
  return {
    url: origin,
    call,
    async must(method, path, body) {
      const answer = await call(method, path, body);
      if (answer.status < 200 || answer.status > 299) throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    },
    async ready() {
      return (await fetch(`${origin}/health/ready`, { signal: AbortSignal.timeout(TIMEOUT_MS) })).status;
    },
  };
}
