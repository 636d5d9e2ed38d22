/** A client that says SMTP word for word (RFC 5321), so that tests see what the server answers to each line. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

export type Conversation = {
  readonly socket: Socket;
  /** Sends one line and answers the last line of the reply; undefined when the connection ended instead. */
  say(line: string): Promise<string | undefined>;
  /** Sends bytes as they are, without waiting. */
  write(bytes: string | Buffer): void;
  nextReply(): Promise<string | undefined>;
};

export async function speakSmtp(url: string): Promise<Conversation> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {}); // the end of the lines tells
  await once(socket, 'connect');
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  const nextReply = async (): Promise<string | undefined> => {
    for (;;) {
      const { value, done } = await lines.next();
      if (done === true) return undefined;
      if (/^\d{3} /.test(String(value))) return String(value);
    }
  };
  await nextReply();
  const say = async (line: string): Promise<string | undefined> => {
    socket.write(`${line}\r\n`);
    return nextReply();
  };
  await say('EHLO client.example.test');
  return { socket, say, write: (bytes) => void socket.write(bytes), nextReply };
}

/** Goes through one message up to the final dot; the reply to that is the answer. `body` is sent as it is, dots included. */
export async function sendMail(conversation: Conversation, to: readonly string[], body: string): Promise<string | undefined> {
  await conversation.say('MAIL FROM:<onward@example.test>');
  for (const address of to) await conversation.say(`RCPT TO:<${address}>`);
  await conversation.say('DATA');
  conversation.write(body);
  return conversation.say('.');
}
