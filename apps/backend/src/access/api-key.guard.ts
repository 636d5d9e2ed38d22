import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { FastifyRequest } from 'fastify';
import { DataSource } from 'typeorm';
import { createGroupCommit } from '../database/group-commit.js';
import { Problem } from '../http/problem.js';
import { type Caller, findApiKeys } from './find-api-key.js';
import { keyOfHeader } from './key-text.js';
import { IS_PUBLIC } from './public.js';

const callers = new WeakMap<FastifyRequest, Caller>();

/** Who sent the request; undefined on a public route. */
export function callerOf(request: FastifyRequest): Caller | undefined {
  return callers.get(request);
}

/** Who sent the request, in words for a record. */
export function nameOf(request: FastifyRequest): string {
  return `API key ${callerOf(request)?.name ?? 'unknown'}`;
}

/**
 * Lets in who brings a live API key. It stands before every HTTP route of the process and is asked by what the route's handler says
 * of itself, never by the text of the URL, so no spelling of a path gets around it; a route that says nothing is closed.
 * Calls that come by another transport than HTTP authenticate themselves and pass.
 */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly source: DataSource,
  ) {}

  /** Requests that come at the same time ask together. Each is asked for after it came, so a key that was revoked before is refused. */
  private readonly find = createGroupCommit<string, Caller | null>({ lanes: 1, max: 1_000, flush: (keys) => findApiKeys(this.source, keys) });

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true;
    if (this.reflector.getAllAndOverride<boolean | undefined>(IS_PUBLIC, [context.getHandler(), context.getClass()]) === true) return true;
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const key = keyOfHeader(request.headers.authorization, 'bearer');
    const caller = key === null ? null : await this.find(key);
    if (!caller) throw new Problem('unauthenticated', 'Send a live API key as "Authorization: Bearer <key>"');
    callers.set(request, caller);
    return true;
  }
}
