import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Reflector } from '@nestjs/core';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { IdempotencyInterceptor } from '../access/idempotency.interceptor.js';
import type { Logger } from '../operations/logger.js';
import { serveApiDocs } from './api-docs.js';
import { Drain } from '../operations/drain.js';
import { BodyReader } from './body-reader.js';
import { closeWhenDraining } from './close-when-draining.js';
import { FieldPipe } from './field-pipe.js';
import { Problem } from './problem.js';
import { ProblemFilter, sendProblem } from './problem-filter.js';
import { refuseUnreadable } from './refuse-unreadable.js';
import { setSecurityHeaders } from './security-headers.js';

/** In ms, as Node has it: a request that is not there by then is given up. Fastify would wait for ever. */
const REQUEST_TIMEOUT_MS = 300_000;
/** No parameter is longer than the head of a request may be (Node's `--max-http-header-size`); Fastify's own limit is shorter than the ids of events. */
const MAX_PARAMETER_LENGTH = 16 * 1024;

/** For NestFactory.create: bodies are read by BodyReader, route by route, and by nothing else. */
export const HTTP_OPTIONS = { bodyParser: false } as const;

/** The HTTP server under Nest. It leaves bodies unread, of whatever kind they say they are. */
export function createHttpAdapter(): FastifyAdapter {
  const adapter = new FastifyAdapter({
    requestTimeout: REQUEST_TIMEOUT_MS,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAMETER_LENGTH },
    skipMiddie: true,
    clientErrorHandler: refuseUnreadable,
    // What Fastify cannot find a route for, a path that cannot be decoded, passes no hook and no filter.
    frameworkErrors: ({ message }: FastifyError, _request: FastifyRequest, reply: FastifyReply) => {
      setSecurityHeaders(reply);
      sendProblem(reply, new Problem('malformed', message));
    },
  });
  const server = adapter.getInstance();
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', (_request, _payload, done) => done(null));
  return adapter;
}

/**
 * Everything an HTTP request passes, in order: headers, the guard (AccessModule), the body, the Idempotency-Key, the fields; and the
 * filter that answers whatever goes wrong. Called on an application made with HTTP_OPTIONS, before `init` or `listen`.
 * `outsidePrefix` are the paths that do not stand under /api/v1 (probes, metrics).
 */
export function setUpHttp(app: NestFastifyApplication, log: Logger, outsidePrefix: string[] = []): void {
  const server = app.getHttpAdapter().getInstance();
  server.addHook('onRequest', (_request, reply, done) => {
    setSecurityHeaders(reply);
    done();
  });
  server.addHook('onSend', closeWhenDraining(app.get(Drain, { strict: false })));
  app.setGlobalPrefix('api/v1', { exclude: outsidePrefix });
  app.useGlobalFilters(new ProblemFilter(log));
  app.useGlobalInterceptors(new BodyReader(app.get(Reflector)), app.get(IdempotencyInterceptor, { strict: false }));
  app.useGlobalPipes(new FieldPipe());
  serveApiDocs(app);
}
