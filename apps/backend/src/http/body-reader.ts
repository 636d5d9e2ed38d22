import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import bodyParser from 'body-parser';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Observable } from 'rxjs';
import { BODY_KIND, type BodyKind, JSON_BODY } from './body-kind.js';
import { parseJson } from './parse-json.js';
import { Problem } from './problem.js';

const MEDIA_TYPE: Record<BodyKind['kind'], { pattern: RegExp; accepted: string }> = {
  json: { pattern: /^application\/(?:json|[a-z0-9!#$&^_.-]+\+json)$/, accepted: 'application/json' },
  csv: { pattern: /^text\/csv$/, accepted: 'text/csv' },
};

/**
 * Reads the body of a request, by what its route says it takes: kind and size belong to the route, never to the text of the URL, and
 * nothing is read before the guard has let the request in. JSON arrives as parsed data, CSV as its bytes (Buffer).
 * Another kind is a 415, a larger body a 413, a packed one (gzip, deflate, br) is unpacked within the same limit. GET and HEAD have no body.
 */
@Injectable()
export class BodyReader implements NestInterceptor {
  private readonly readers = new Map<number, ReturnType<typeof bodyParser.raw>>();

  constructor(private readonly reflector: Reflector) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    if (hasBody(request)) {
      const { kind, limitBytes } = this.reflector.getAllAndOverride<BodyKind | undefined>(BODY_KIND, [context.getHandler(), context.getClass()]) ?? JSON_BODY;
      checkMediaType(request, kind);
      const bytes = await this.read(request.raw, context.switchToHttp().getResponse<FastifyReply>().raw, limitBytes);
      request.body = bytes === null ? undefined : kind === 'json' ? parseJson(textOf(bytes)) : bytes;
    }
    return next.handle();
  }

  private async read(request: FastifyRequest['raw'] & { body?: unknown }, response: FastifyReply['raw'], limitBytes: number): Promise<Buffer | null> {
    const reader = this.readers.get(limitBytes) ?? bodyParser.raw({ type: () => true, limit: limitBytes, inflate: true });
    this.readers.set(limitBytes, reader);
    await new Promise<void>((resolve, reject) => {
      void reader(request, response, (error?: unknown) => (error === undefined ? resolve() : reject(refusalOf(error, limitBytes))));
    });
    return Buffer.isBuffer(request.body) && request.body.length > 0 ? request.body : null;
  }
}

/** RFC 9112 §6: a request has a body when it says so by a length or a transfer coding. */
function hasBody(request: FastifyRequest): boolean {
  if (request.method === 'GET' || request.method === 'HEAD') return false;
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
}

function checkMediaType(request: FastifyRequest, kind: BodyKind['kind']): void {
  const { pattern, accepted } = MEDIA_TYPE[kind];
  const [mediaType = '', ...parameters] = (request.headers['content-type'] ?? '').toLowerCase().split(';');
  if (!pattern.test(mediaType.trim())) throw new Problem('unsupported_media_type', `The body must be ${accepted}`);
  const charset = parameters.map((parameter) => /^\s*charset\s*=\s*"?([^"\s]*)"?\s*$/.exec(parameter)?.[1]).find((name) => name !== undefined);
  if (kind === 'json' && charset !== undefined && charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') {
    throw new Problem('unsupported_media_type', 'The body must be in UTF-8 (RFC 8259 §8.1)');
  }
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Problem('malformed', 'The body is not UTF-8');
  }
}

function refusalOf(error: unknown, limitBytes: number): unknown {
  const type = error instanceof Error && 'type' in error ? error.type : undefined;
  switch (type) {
    case 'entity.too.large':
      return new Problem('too_large', `The body is larger than ${limitBytes / 1024} KB`);
    case 'encoding.unsupported':
      return new Problem('unsupported_media_type', 'The content coding must be gzip, deflate, br or none');
    case 'request.aborted':
      return new Problem('malformed', 'The body broke off');
    case 'request.size.invalid':
      return new Problem('malformed', 'The body is not as long as Content-Length says');
    default:
      // What is left of body-parser's are packed bodies that cannot be unpacked.
      return error instanceof Error && 'status' in error && error.status === 400 ? new Problem('malformed', 'The body could not be unpacked') : error;
  }
}
