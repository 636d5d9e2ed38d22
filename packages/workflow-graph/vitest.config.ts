import { defineConfig } from 'vitest/config';

/** The time-out is a hang guard for a busy machine. */
export default defineConfig({ test: { include: ['test/**/*.test.ts'], pool: 'forks', testTimeout: 60_000 } });
