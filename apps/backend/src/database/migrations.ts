import { Initial1796000000000 } from './migrations/1796000000000-initial.js';

/** Every migration in order, listed by hand. A merged one is never edited. */
export const MIGRATIONS = [Initial1796000000000];
