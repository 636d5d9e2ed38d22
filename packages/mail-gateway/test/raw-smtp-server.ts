/**
 * An SMTP server of a few lines that a test can make misbehave at every stage, and that keeps every byte it was sent.
 * Real TCP, one rule: what the script says for a stage is done instead of the usual reply.
 */
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';

/** `body`: the first bytes of the message are there; `end`: all of it is, up to the final dot. */
export type Stage = 'greeting' | 'ehlo' | 'helo' | 'starttls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'body' | 'end';
/** A reply line, part of one and then a cut connection, a cut connection, or no answer at all. */
export type Misbehaviour = { reply: string } | { part: string } | 'cut' | 'silent';

export interface RawSmtpServer {
  port: number;
  url: string;
  /** Every command line of every connection, in order; the message is not among them. */
  commands: string[];
  /** Every message that was complete, without the final dot, dots unstuffed. */
  messages: string[];
  connections: number;
  script: Partial<Record<Stage, Misbehaviour>>;
  /** Resolves when a connection has come to the stage (again). */
  reached(stage: Stage): Promise<void>;
  /** Sends a line over every connection there is: the reply that was withheld. */
  say(line: string): void;
  /** Cuts every connection there is. */
  cutAll(): void;
  close(): Promise<void>;
}

const USUAL: Record<Exclude<Stage, 'body'>, string> = {
  greeting: '220 raw.example.test ESMTP',
  ehlo: '250 raw.example.test',
  helo: '250 raw.example.test',
  starttls: '220 go ahead',
  auth: '235 2.7.0 welcome',
  mail: '250 2.1.0 sender ok',
  rcpt: '250 2.1.5 recipient ok',
  data: '354 go ahead',
  end: '250 2.0.0 queued as 7F3A',
};

const VERBS: Record<string, Stage> = { EHLO: 'ehlo', HELO: 'helo', STAR: 'starttls', AUTH: 'auth', MAIL: 'mail', RCPT: 'rcpt', DATA: 'data' };

/** `offers`: the extensions it names at EHLO. It knows no TLS: after STARTTLS whatever comes is no command. */
export async function startRawSmtpServer({ offers = [] }: { offers?: readonly string[] } = {}): Promise<RawSmtpServer> {
  const sockets = new Set<Socket>();
  const waiting: { stage: Stage; resolve: () => void }[] = [];

  const server = createServer((socket) => {
    let pending = '';
    let isInMessage = false;
    let hasBody = false;
    running.connections++;
    sockets.add(socket);
    socket.setEncoding('latin1');
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));

    /** Does what the script says; true when the usual reply went out. */
    const come = (stage: Stage): boolean => {
      for (const waiter of waiting.splice(0)) {
        if (waiter.stage === stage) waiter.resolve();
        else waiting.push(waiter);
      }
      const misbehaviour = running.script[stage];
      if (misbehaviour === 'silent') return false;
      if (misbehaviour === 'cut') {
        socket.destroy();
        return false;
      }
      if (misbehaviour && 'part' in misbehaviour) socket.end(misbehaviour.part);
      else if (misbehaviour) socket.write(`${misbehaviour.reply}\r\n`);
      else if (stage === 'ehlo')
        socket.write(['raw.example.test', ...offers].map((text, nth) => `250${nth === offers.length ? ' ' : '-'}${text}\r\n`).join(''));
      else if (stage !== 'body') socket.write(`${USUAL[stage]}\r\n`);
      return !misbehaviour;
    };

    const takeMessage = (): boolean => {
      const end = pending.startsWith('.\r\n') ? 0 : pending.indexOf('\r\n.\r\n');
      if (end === -1) return false;
      running.messages.push(`\r\n${pending.slice(0, end)}`.replaceAll('\r\n..', '\r\n.').slice(2));
      pending = pending.slice(end + (end === 0 ? 3 : 5));
      isInMessage = false;
      come('end');
      return true;
    };

    socket.on('data', (chunk: string) => {
      pending += chunk;
      for (;;) {
        if (isInMessage) {
          if (!hasBody && pending !== '') {
            hasBody = true;
            if (!come('body') && running.script.body) return;
          }
          if (!takeMessage()) return;
          continue;
        }
        const line = pending.indexOf('\r\n');
        if (line === -1) return;
        const command = pending.slice(0, line);
        pending = pending.slice(line + 2);
        running.commands.push(command);
        const stage = VERBS[command.slice(0, 4).toUpperCase()];
        if (stage === undefined) {
          socket.write(command.toUpperCase() === 'QUIT' ? '221 bye\r\n' : '250 ok\r\n');
          continue;
        }
        if (come(stage) && stage === 'data') {
          isInMessage = true;
          hasBody = false;
        }
      }
    });
    come('greeting');
  });

  const running: RawSmtpServer = {
    port: 0,
    url: '',
    commands: [],
    messages: [],
    connections: 0,
    script: {},
    reached: (stage) => new Promise((resolve) => waiting.push({ stage, resolve })),
    say: (line) => {
      for (const socket of sockets) socket.write(`${line}\r\n`);
    },
    cutAll: () => {
      for (const socket of sockets) socket.destroy();
    },
    close: async () => {
      running.cutAll();
      server.close();
      await once(server, 'close');
    },
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  running.port = (server.address() as AddressInfo).port;
  running.url = `smtp://127.0.0.1:${running.port}`;
  return running;
}
