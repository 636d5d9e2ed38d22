import type { NestExpressApplication } from '@nestjs/platform-express';
import { Reflector } from '@nestjs/core';
import { IdempotencyInterceptor } from '../access/idempotency.interceptor.js';
import type { Logger } from '../operations/logger.js';
import { serveApiDocs } from './api-docs.js';
import { Drain } from '../operations/drain.js';
import { BodyReader } from './body-reader.js';
import { closeWhenDraining } from './close-when-draining.js';
import { FieldPipe } from './field-pipe.js';
import { ProblemFilter } from './problem-filter.js';
import { securityHeaders } from './security-headers.js';

/** For NestFactory.create: bodies are read by BodyReader, route by route, and by nothing else. */
export const HTTP_OPTIONS = { bodyParser: false } as const;

/**
 * Everything an HTTP request passes, in order: headers, the guard (AccessModule), the body, the Idempotency-Key, the fields; and the
 * filter that answers whatever goes wrong. Called on an application made with HTTP_OPTIONS, before `init` or `listen`.
 * `outsidePrefix` are the paths that do not stand under /api/v1 (probes, metrics).
 */
export function setUpHttp(app: NestExpressApplication, log: Logger, outsidePrefix: string[] = []): void {
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', 'simple');
  app.use(securityHeaders);
  app.use(closeWhenDraining(app.get(Drain, { strict: false })));
  app.setGlobalPrefix('api/v1', { exclude: outsidePrefix });
  app.useGlobalFilters(new ProblemFilter(log));
  app.useGlobalInterceptors(new BodyReader(app.get(Reflector)), app.get(IdempotencyInterceptor, { strict: false }));
  app.useGlobalPipes(new FieldPipe());
  answerUnknownPathsEverywhere(app);
  serveApiDocs(app);
}

/** With a prefix Nest answers unknown paths below it only and leaves the others to Express, whose answer is a page of HTML. */
function answerUnknownPathsEverywhere(app: NestExpressApplication): void {
  const adapter = app.getHttpAdapter();
  const setHandler = adapter.setNotFoundHandler?.bind(adapter);
  if (!setHandler) return;
  adapter.setNotFoundHandler = (handler): void => {
    setHandler(handler);
  };
}
