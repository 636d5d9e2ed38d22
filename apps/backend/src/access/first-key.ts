import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { SETTINGS, type Settings } from '../settings.js';
import { ensureFirstKey, firstKeyNotice } from './ensure-first-key.js';

/** At the start of the process: sees to it that somebody can get in. The key goes to the terminal, never through the logger. */
@Injectable()
export class FirstKey implements OnApplicationBootstrap {
  constructor(
    private readonly source: DataSource,
    @Inject(SETTINGS) private readonly settings: Settings,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const made = await ensureFirstKey(this.source, this.settings.firstKeyFile);
    if (made) process.stdout.write(firstKeyNotice(made.key));
  }
}
