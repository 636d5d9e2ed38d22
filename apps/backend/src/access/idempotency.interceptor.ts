import { type CallHandler, type ExecutionContext, Inject, Injectable, type NestInterceptor } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { catchError, concatMap, from, type Observable, of, throwError } from 'rxjs';
import { DataSource } from 'typeorm';
import { invalidField, Problem } from '../http/problem.js';
import { LOGGER, type Logger } from '../operations/logger.js';
import { SETTINGS, type Settings } from '../settings.js';
import { callerOf } from './api-key.guard.js';
import { freeKey, keepAnswer, type KeyRef, requestHash, reserveKey } from './idempotency.js';
import { IS_UNREPEATABLE } from './unrepeatable.js';

const VISIBLE_ASCII = /^[\x21-\x7e]{1,200}$/;
const RETRY_AFTER_SECONDS = 1;

/**
 * Makes a POST with an Idempotency-Key header safe to send again: the first answer that went well is kept for a day and given again
 * with `Idempotency-Replayed: true`; a refused request frees its key. Without the header nothing changes.
 * Runs after the body has been read and before anything looks at it.
 */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(
    private readonly reflector: Reflector,
    private readonly source: DataSource,
    @Inject(LOGGER) private readonly log: Logger,
    @Inject(SETTINGS) private readonly settings: Settings,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const response = context.switchToHttp().getResponse<FastifyReply>();
    const key = request.headers['idempotency-key'];
    const caller = callerOf(request);
    if (key === undefined || request.method !== 'POST' || !caller) return next.handle();
    if (typeof key !== 'string' || !VISIBLE_ASCII.test(key)) throw invalidField('Idempotency-Key', 'must be 1 to 200 visible ASCII characters');
    if (this.reflector.get<boolean | undefined>(IS_UNREPEATABLE, context.getHandler()) === true) {
      throw invalidField('Idempotency-Key', 'is not taken here, since the answer shows a secret and is not kept');
    }

    const ref: KeyRef = { callerId: caller.id, key, requestHash: requestHash(request.method, request.originalUrl, request.body, this.settings.secretKey) };
    const reservation = await reserveKey(this.source, ref);
    switch (reservation.kind) {
      case 'first':
        return next.handle().pipe(
          concatMap((body) => from(this.keep(ref, reservation.since, response.statusCode, body))),
          catchError((error: unknown) => from(this.free(ref, reservation.since)).pipe(concatMap(() => throwError(() => error)))),
        );
      case 'repeat':
        response.status(reservation.status).header('Idempotency-Replayed', 'true');
        return of(reservation.body ?? undefined);
      case 'running':
        throw new Problem('conflict', 'The first request with this Idempotency-Key is still being worked on', { retryAfterSeconds: RETRY_AFTER_SECONDS });
      case 'other_request':
        throw new Problem('conflict', 'This Idempotency-Key was used for another request');
    }
  }

  /** The work is done: that its answer could not be kept changes nothing for who waits for it now. */
  private async keep(ref: KeyRef, since: string, status: number, body: unknown): Promise<unknown> {
    try {
      if (status >= 200 && status < 300) await keepAnswer(this.source, ref, since, status, body);
      else await freeKey(this.source, ref, since);
    } catch (error) {
      this.log.warn({ err: error }, 'the answer to a request with an Idempotency-Key could not be kept');
    }
    return body;
  }

  private async free(ref: KeyRef, since: string): Promise<void> {
    try {
      await freeKey(this.source, ref, since);
    } catch (error) {
      this.log.warn({ err: error }, 'an Idempotency-Key could not be given free; it frees itself after a minute');
    }
  }
}
