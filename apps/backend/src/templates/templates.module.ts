import { Module } from '@nestjs/common';
import { TemplatesController } from './templates.controller.js';

/** Mail templates: kept here, filled by fill.ts. */
@Module({ controllers: [TemplatesController] })
export class TemplatesModule {}
