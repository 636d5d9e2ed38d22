import type { onSendHookHandler } from 'fastify';
import type { Drain } from '../operations/drain.js';

/**
 * While the process is closing, every answer ends its connection (RFC 9112 §9.6), so that a client which goes on asking asks elsewhere, and not once more a
 * server that is closing. Looked at when the answer is sent: the process may have begun to close while the request was worked on.
 */
export function closeWhenDraining(drain: Drain): onSendHookHandler {
  return (_request, reply, _payload, done) => {
    if (drain.isDraining) reply.header('connection', 'close');
    done();
  };
}
