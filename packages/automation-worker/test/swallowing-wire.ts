/** A TCP wire to Valkey that can go deaf without breaking: bytes are taken and lost, in both directions, as behind a firewall that forgot the flow. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type Wire = {
  url: string;
  /** What hangs on the wire now is swallowed from now on; who connects later gets through. */
  swallowPresent(): void;
  /** Whoever asks to be handed the next entry is swallowed from then on, on whichever connection; who only asks questions gets through. */
  swallowListeners(): void;
  close(): Promise<void>;
};

export async function startWire(valkeyUrl: string): Promise<Wire> {
  const { hostname, port } = new URL(valkeyUrl);
  const deaf = new Set<Socket>();
  const present = new Set<Socket>();
  let isListeningSwallowed = false;
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    present.add(near);
    near.on('data', (chunk: Buffer) => {
      if (isListeningSwallowed && /bzpopmin|evalsha|\beval\b/i.test(chunk.toString('latin1'))) deaf.add(near);
      if (!deaf.has(near)) far.write(chunk);
    });
    far.on('data', (chunk: Buffer) => {
      if (!deaf.has(near)) near.write(chunk);
    });
    for (const [end, opposite] of [
      [near, far],
      [far, near],
    ] as const) {
      end.on('error', () => undefined);
      end.on('close', () => {
        present.delete(near);
        deaf.delete(near);
        opposite.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    swallowPresent: () => present.forEach((socket) => deaf.add(socket)),
    swallowListeners: () => {
      isListeningSwallowed = true;
    },
    close: async () => {
      for (const socket of present) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
