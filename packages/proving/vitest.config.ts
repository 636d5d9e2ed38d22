import { defineConfig } from 'vitest/config';

export const HARNESS = {
  globalSetup: ['@onward/stack/test-services'],
  pool: 'forks',
  // Each file runs whole installations of real processes: one at a time.
  maxWorkers: 1,
  fileParallelism: false,
  // Whole installations at a time, in the file whose tests are concurrent.
  maxConcurrency: 3,
  testTimeout: 120_000,
  hookTimeout: 120_000,
} as const;

export default defineConfig({ test: { ...HARNESS, include: ['test/**/*.test.ts'], globalSetup: [...HARNESS.globalSetup] } });
