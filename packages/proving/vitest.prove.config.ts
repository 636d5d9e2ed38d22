import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['prove/**/*.test.ts'],
    globalSetup: ['@onward/stack/test-services'],
    pool: 'forks',
    maxWorkers: 1,
    fileParallelism: false,
    testTimeout: 1_800_000,
    hookTimeout: 300_000,
  },
});
