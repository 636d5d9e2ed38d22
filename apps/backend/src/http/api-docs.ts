import type { NestExpressApplication } from '@nestjs/platform-express';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { NextFunction, Request, Response } from 'express';
import { DataSource } from 'typeorm';
import { findApiKey } from '../access/find-api-key.js';
import { keyOfHeader } from '../access/key-text.js';
import { Problem } from './problem.js';
import { problemOf, sendProblem } from './problem-filter.js';

const DOCS_PATH = 'api/docs';
/** The page brings its own script and style; nothing from elsewhere. */
const DOCS_POLICY = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/** The OpenAPI description of the application's routes, made from the schemas the routes are checked by. */
export function describeApi(app: NestExpressApplication): OpenAPIObject {
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
 * API key; a browser may bring it as the password of Basic authentication. These paths are Express routes that no guard of Nest
 * sees, which is why the question stands here, before all of them.
 */
export function serveApiDocs(app: NestExpressApplication): void {
  const source = app.get(DataSource);
  app.use(`/${DOCS_PATH}`, (request: Request, response: Response, next: NextFunction) => {
    void admit(source, request, response).then((isAdmitted) => {
      if (isAdmitted) next();
    });
  });
  SwaggerModule.setup(DOCS_PATH, app, () => describeApi(app), { jsonDocumentUrl: `${DOCS_PATH}/openapi.json`, raw: ['json'] });
}

async function admit(source: DataSource, request: Request, response: Response): Promise<boolean> {
  try {
    const key = keyOfHeader(request.headers.authorization, 'bearer or basic');
    if (key !== null && (await findApiKey(source, key))) {
      response.setHeader('Content-Security-Policy', DOCS_POLICY);
      return true;
    }
    response.setHeader('WWW-Authenticate', ['Basic realm="Onward: any name, an API key as password", charset="UTF-8"', 'Bearer realm="onward"']);
    sendProblem(
      response,
      new Problem('unauthenticated', 'Send a live API key as "Authorization: Bearer <key>"; a browser may give it as the password, with any name'),
    );
  } catch (error) {
    sendProblem(response, problemOf(error));
  }
  return false;
}
