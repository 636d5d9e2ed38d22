import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { ApiKeyGuard } from './api-key.guard.js';
import { ApiKeysController } from './api-keys.controller.js';
import { FirstKey } from './first-key.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';

/** Who may ask. Importing it closes every route of the application that does not say it is public. */
@Module({
  controllers: [ApiKeysController],
  providers: [{ provide: APP_GUARD, useClass: ApiKeyGuard }, FirstKey, IdempotencyInterceptor],
  exports: [IdempotencyInterceptor],
})
export class AccessModule {}
