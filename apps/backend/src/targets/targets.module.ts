import { Module } from '@nestjs/common';
import { TargetsController } from './targets.controller.js';

@Module({ controllers: [TargetsController] })
export class TargetsModule {}
