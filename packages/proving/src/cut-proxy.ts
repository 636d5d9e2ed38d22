/** A TCP proxy on 127.0.0.1 whose line can be cut and mended: while it is cut nobody gets through, and what stood is reset. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type CutProxy = {
  port: number;
  /** The line is cut from before `work` begins until after it has ended. */
  whileCut<Result>(work: () => Promise<Result>): Promise<Result>;
  stop(): Promise<void>;
};

export async function startCutProxy(toPort: number): Promise<CutProxy> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((near) => {
    if (isCut) return void near.resetAndDestroy();
    const far = connect(toPort, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  const reset = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async whileCut(work) {
      isCut = true;
      reset();
      try {
        return await work();
      } finally {
        isCut = false;
      }
    },
    async stop() {
      reset();
      server.close();
      await once(server, 'close');
    },
  };
}
