/**
 * A request of about 150 bytes and its answer between two processes on loopback, so many in flight: `tcp-1`, `tcp-64`: a line of JSON each way
 * over one connection; `http-1`, `http-50`: POST by undici.request.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';
import { inFlight } from './trivial-step.mjs';

const data = { runId: '0190b2c4-7d1a-7c3e-9d7c-2f9a1b3c4d5e', epoch: 3, input: { text: 'hello world', numbers: [1, 2, 3] } };

export async function start({ variant, onRunEnded }) {
  const [protocol, limit] = variant.split('-');
  const server = fork(fileURLToPath(new URL('loopback-server.mjs', import.meta.url)), [protocol]);
  const [{ port }] = await once(server, 'message');
  const { call, close } = await (protocol === 'tcp' ? openTcp(port) : openHttp(port));
  return {
    startRuns: (ids) =>
      inFlight(ids, Number(limit), async (id) => {
        await call(id);
        onRunEnded();
      }),
    async close() {
      await close();
      server.kill();
    },
  };
}

async function openTcp(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const waiting = new Map();
  createInterface({ input: socket }).on('line', (line) => {
    const { id } = JSON.parse(line);
    waiting.get(id)();
    waiting.delete(id);
  });
  return {
    call(id) {
      const answered = new Promise((resolve) => waiting.set(id, resolve));
      socket.write(`${JSON.stringify({ id, pattern: 'limit', data })}\n`);
      return answered;
    },
    close: () => socket.destroy(),
  };
}

function openHttp(port) {
  const dispatcher = new Agent({ connections: 50 });
  return {
    async call(id) {
      const { body } = await request(`http://127.0.0.1:${port}/`, {
        dispatcher,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ id, data }),
      });
      await body.text();
    },
    close: () => dispatcher.close(),
  };
}
