import type { NextFunction, Request, Response } from 'express';
import type { Drain } from '../operations/drain.js';

/**
 * While the process is closing, every answer ends its connection (RFC 9112 §9.6). A connection that was busy when the server was told to close
 * would otherwise be kept by a client that goes on asking, and the process would not end.
 */
export function closeWhenDraining(drain: Drain) {
  return (_request: Request, response: Response, next: NextFunction): void => {
    // Set when the answer's head is written: the process may have begun to close in between.
    const writeHead = response.writeHead.bind(response);
    response.writeHead = ((...head: Parameters<typeof response.writeHead>) => {
      if (drain.isDraining) response.setHeader('connection', 'close');
      return writeHead(...head);
    }) as typeof response.writeHead;
    next();
  };
}
