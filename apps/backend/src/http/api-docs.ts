import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DataSource } from 'typeorm';
import { findApiKey } from '../access/find-api-key.js';
import { keyOfHeader } from '../access/key-text.js';
import { Problem } from './problem.js';
import { problemOf, sendProblem } from './problem-filter.js';

const DOCS_PATH = 'api/docs';
/** The page brings its own script and style; nothing from elsewhere. */
const DOCS_POLICY = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/** The OpenAPI description of the application's routes, made from the schemas the routes are checked by. */
export function describeApi(app: NestFastifyApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Onward')
    .setDescription('The HTTP API for people and host systems. Errors are RFC 9457 problem details; lists are paged by cursor.')
    .setVersion('1')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key' })
    .addSecurityRequirements('bearer')
    .build();
  return SwaggerModule.createDocument(app, config);
}

/**
 * Serves the description at /api/docs for people and at /api/docs/openapi.json for programs. It names every route, so it asks for an
 * API key; a browser may bring it as the password of Basic authentication. These are routes of Fastify that no guard of Nest sees, which is
 * why the question stands here, before all of them. It is asked by the route that was found, never by the text of the URL.
 */
export function serveApiDocs(app: NestFastifyApplication): void {
  const source = app.get(DataSource);
  app
    .getHttpAdapter()
    .getInstance()
    .addHook('onRequest', (request, reply, done) => {
      if (request.routeOptions.url?.startsWith(`/${DOCS_PATH}`) !== true) return done();
      void admit(source, request, reply).then((isAdmitted) => {
        if (isAdmitted) done();
      });
    });
  SwaggerModule.setup(DOCS_PATH, app, () => describeApi(app), { jsonDocumentUrl: `${DOCS_PATH}/openapi.json`, raw: ['json'] });
}

/** Answers who may not come in. */
async function admit(source: DataSource, request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
  try {
    const key = keyOfHeader(request.headers.authorization, 'bearer or basic');
    if (key !== null && (await findApiKey(source, key))) {
      reply.header('Content-Security-Policy', DOCS_POLICY);
      return true;
    }
    reply.header('WWW-Authenticate', ['Basic realm="Onward: any name, an API key as password", charset="UTF-8"', 'Bearer realm="onward"']);
    sendProblem(
      reply,
      new Problem('unauthenticated', 'Send a live API key as "Authorization: Bearer <key>"; a browser may give it as the password, with any name'),
    );
  } catch (error) {
    sendProblem(reply, problemOf(error));
  }
  return false;
}
