/** The other side of limit-loopback.mjs, in a process of its own: `node loopback-server.mjs tcp|http`; says its port over the IPC channel and ends with it. */
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { createInterface } from 'node:readline';

const ANSWER = JSON.stringify({ ok: true, text: 'x'.repeat(80) });
const HEADERS = { 'content-type': 'application/json', 'content-length': ANSWER.length };

const server =
  process.argv[2] === 'http'
    ? createServer((request, response) => {
        request.resume();
        request.on('end', () => response.writeHead(200, HEADERS).end(ANSWER));
      })
    : createTcpServer({ noDelay: true }, (socket) => {
        socket.on('error', () => socket.destroy());
        createInterface({ input: socket }).on('line', (line) => {
          const { id } = JSON.parse(line);
          socket.write(`${JSON.stringify({ id, response: { ok: true, text: 'x'.repeat(80) } })}\n`);
        });
      });
process.on('disconnect', () => process.exit(0));
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
