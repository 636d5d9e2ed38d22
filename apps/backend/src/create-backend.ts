import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { DataSource } from 'typeorm';
import { AppModule } from './app.module.js';
import { openDatabase } from './database/open-database.js';
import { createHttpAdapter, HTTP_OPTIONS, setUpHttp } from './http/set-up-http.js';
import { Drain } from './operations/drain.js';
import { createLogger, LOGGER, type Logger } from './operations/logger.js';
import { NestLog } from './operations/nest-log.js';
import { RpcServer } from './runtime/rpc-server.js';
import type { Settings } from './settings.js';

export type Backend = {
  app: NestFastifyApplication;
  source: DataSource;
  log: Logger;
  /** The ports it listens on, also when 0 was asked for. */
  port: number;
  rpcPort: number;
  /** Refuses new work, lets what is in flight finish, then closes everything. */
  close(): Promise<void>;
};

/** Starts a backend: database first (waited for and migrated), then HTTP for people and TCP for workers. Throws when it cannot. */
export async function createBackend(settings: Settings): Promise<Backend> {
  const log = createLogger(settings);
  const { source, vital } = await openDatabase(settings, log);
  const app = await NestFactory.create<NestFastifyApplication>(AppModule.of(settings, source, vital), createHttpAdapter(), {
    ...HTTP_OPTIONS,
    logger: new NestLog(log),
    abortOnError: false,
  });
  setUpHttp(app, app.get<Logger>(LOGGER), ['health', 'health/ready']);
  const rpc = new RpcServer({ host: settings.rpcHost, port: settings.rpcPort, secrets: settings.rpcSecrets, drainTimeoutMs: settings.drainTimeoutMs, log });
  app.connectMicroservice({ strategy: rpc });
  await app.startAllMicroservices();
  await app.listen(settings.port, settings.host);
  const address: unknown = app.getHttpServer().address();
  const port = typeof address === 'object' && address !== null && 'port' in address ? Number(address.port) : settings.port;
  return {
    app,
    source,
    log,
    port,
    rpcPort: rpc.port,
    async close() {
      app.get(Drain).isDraining = true;
      await rpc.drain();
      await app.close();
      await vital.destroy();
    },
  };
}
