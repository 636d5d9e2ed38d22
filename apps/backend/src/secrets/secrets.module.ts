import { Module } from '@nestjs/common';
import { SecretsController } from './secrets.controller.js';

/** Secrets: stored here, named in texts of FORWARD_REQUEST, opened when a request is handed over. */
@Module({ controllers: [SecretsController] })
export class SecretsModule {}
