import { defineConfig } from 'vitest/config';

/** The time-out is a hang guard for a busy machine; the deadlines under test are measured by the tests themselves. */
export default defineConfig({ test: { include: ['test/**/*.test.ts'], pool: 'forks', testTimeout: 30_000, hookTimeout: 30_000 } });
