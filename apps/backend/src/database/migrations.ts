import { Initial1796000000000 } from './migrations/1796000000000-initial.js';
import { Fast1796200000000 } from './migrations/1796200000000-fast.js';
import { LeanHistory1796300000000 } from './migrations/1796300000000-lean-history.js';
import { TargetsAndSecrets1796100000000 } from './migrations/1796100000000-targets-and-secrets.js';

/** Every migration in order, listed by hand. A merged one is never edited. */
export const MIGRATIONS = [Initial1796000000000, TargetsAndSecrets1796100000000, Fast1796200000000, LeanHistory1796300000000];
