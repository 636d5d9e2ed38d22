import { defineConfig } from 'vitest/config';
import { HARNESS } from '../vitest.config.js';

/** The long runs of `pnpm prove`. */
export default defineConfig({
  root: import.meta.dirname,
  test: { ...HARNESS, globalSetup: [...HARNESS.globalSetup], include: ['*.test.ts'], env: { ONWARD_PROVE: '1' } },
});
