import type { Scope } from '../../src/runtime/scope.js';

/** What a run may see, with the parts a test cares about put in. */
export function scopeForTest(parts: Partial<Scope> = {}): Scope {
  return {
    contact: { id: 'c-1', email: 'ada@example.test', attributes: { name: 'Ada' } },
    event: { title: 'Spring' },
    context: {},
    steps: {},
    run: { id: 'r-1' },
    workflow: { id: 'w-1', name: 'Welcome' },
    ...parts,
  };
}
