import { randomUUID } from 'node:crypto';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { ERRORS, type ErrorCode } from '@onward/contracts/errors';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../operations/logger.js';
import { databaseFault } from '../database/database-fault.js';
import { Problem } from './problem.js';

/** How soon a client may ask again when the database is away or busy. */
const RETRY_AFTER_SECONDS = 2;

const CODE_OF_STATUS: Record<number, ErrorCode> = {
  400: 'malformed',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'conflict',
  413: 'too_large',
  415: 'unsupported_media_type',
  422: 'unprocessable',
  503: 'unavailable',
};

/**
 * Answers every error of an HTTP request as RFC 9457 problem details, and nothing else. What was not foreseen is `internal`: its
 * detail goes to the log alone, under the `instance` that the answer carries, so that the two can be brought together.
 */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly log: Logger) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<FastifyRequest>();
    const response = host.switchToHttp().getResponse<FastifyReply>();
    const problem = problemOf(error);
    const instance = `urn:uuid:${randomUUID()}`;
    if (problem.code === 'internal') this.log.error({ err: error, instance, method: request.method, path: pathOf(request) }, 'unforeseen fault');
    else if (problem.code === 'unavailable')
      this.log.warn({ err: error, instance, method: request.method, path: pathOf(request) }, 'the database did not answer');
    if (response.raw.headersSent || response.raw.destroyed) {
      response.raw.destroy();
      return;
    }
    sendProblem(response, problem, instance);
  }
}

/** Without the query, which may hold what nobody is to read in a log. */
const pathOf = ({ url }: FastifyRequest): string => url.split('?', 1)[0] ?? '';

/** Writes the problem as the whole answer. */
export function sendProblem(response: FastifyReply, problem: Problem, instance?: string): void {
  const { status } = ERRORS[problem.code];
  response.status(status).type('application/problem+json');
  if (problem.retryAfterSeconds !== undefined) response.header('Retry-After', String(problem.retryAfterSeconds));
  if (status === 401 && !response.hasHeader('WWW-Authenticate')) response.header('WWW-Authenticate', 'Bearer realm="onward"');
  void response.send(JSON.stringify(detailsOf(problem, instance)));
}

/** The members of RFC 9457 §3.1 and `errors`, one a field. */
export function detailsOf(problem: Problem, instance?: string) {
  const { status, title } = ERRORS[problem.code];
  return {
    type: `urn:onward:error:${problem.code}`,
    title,
    status,
    detail: problem.detail,
    ...(problem.errors ? { errors: problem.errors } : {}),
    ...(instance === undefined ? {} : { instance }),
  };
}

/** The refusal that an error amounts to. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const fault = databaseFault(error);
  switch (fault) {
    case 'away':
      return new Problem('unavailable', 'The database cannot be reached; nothing can be read or kept for now', { retryAfterSeconds: RETRY_AFTER_SECONDS });
    case 'busy':
      return new Problem('unavailable', 'The database is too busy for this; nothing was changed', { retryAfterSeconds: RETRY_AFTER_SECONDS });
    case 'taken':
      return new Problem('conflict', 'There is such a thing already');
    case 'held':
      return new Problem('conflict', 'Something that this needs is not there, or something else still needs it');
    case 'unreadable':
      return new Problem('malformed', 'A text holds characters that cannot be kept');
    case null:
      break;
  }
  if (error instanceof HttpException) {
    const code = CODE_OF_STATUS[error.getStatus()];
    if (code) return new Problem(code, error.message);
  }
  return new Problem('internal', ERRORS.internal.title);
}
