import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { include: ['test/**/*.test.ts'], pool: 'forks', hookTimeout: 120_000, testTimeout: 60_000 } });
