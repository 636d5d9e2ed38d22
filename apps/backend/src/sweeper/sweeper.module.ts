import { Module } from '@nestjs/common';
import { RuntimeModule } from '../runtime/runtime.module.js';
import { Sweeper } from './sweeper.js';

@Module({ imports: [RuntimeModule], providers: [Sweeper], exports: [Sweeper] })
export class SweeperModule {}
