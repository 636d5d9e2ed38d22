/** The HTTP API as a busy client uses it: connections kept open, a key with every request. */
import { Agent, request } from 'undici';

export type Answer = { status: number; body: Record<string, unknown> };

export type Api = {
  call(method: 'GET' | 'POST' | 'PUT' | 'PATCH', path: string, body?: unknown): Promise<Answer>;
  /** Like `call`, and throws unless the answer is a 2xx. */
  must(method: 'GET' | 'POST' | 'PUT' | 'PATCH', path: string, body?: unknown): Promise<Record<string, unknown>>;
  isReady(): Promise<boolean>;
  close(): Promise<void>;
};

const TIMEOUT_MS = 60_000;

export function createApi(origin: string, key: string): Api {
  const agent = new Agent({ connections: 64, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS });
  const call: Api['call'] = async (method, path, body) => {
    const { statusCode, body: answer } = await request(`${origin}/api/v1${path}`, {
      method,
      dispatcher: agent,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: statusCode, body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>) };
  };
  return {
    call,
    async must(method, path, body) {
      const answer = await call(method, path, body);
      if (answer.status < 200 || answer.status > 299) throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    },
    async isReady() {
      try {
        const { statusCode, body } = await request(`${origin}/health/ready`, { dispatcher: agent });
        await body.dump();
        return statusCode === 200;
      } catch {
        return false;
      }
    },
    close: () => agent.close(),
  };
}
