import { Inject, Injectable } from '@nestjs/common';
import { ActionCatalogue } from '../actions/action-catalogue.js';
import { EventBus } from '../events/event-bus.js';
import { FailPoints } from '@onward/wire/fail-points';
import { SETTINGS, type Settings } from '../settings.js';
import { KnownTargets } from '../targets/known-targets.js';
import { VersionReader } from '../workflows/read-version.js';

/** What the 13 handlers need besides the checkpoint they work on. */
@Injectable()
export class RuntimeKit {
  constructor(
    @Inject(SETTINGS) readonly settings: Settings,
    readonly versions: VersionReader,
    readonly actions: ActionCatalogue,
    readonly bus: EventBus,
    readonly failPoints: FailPoints,
  ) {}

  readonly targets = new KnownTargets();
}
