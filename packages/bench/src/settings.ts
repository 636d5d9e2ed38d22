/** The environment of the measuring process: its only reader. */
export type Settings = {
  /** For the processes that are started. */
  path: string;
  /** Where an n8n is installed (`ONWARD_BENCH_N8N`), or null. */
  n8n: string | null;
};

export function readSettings(env: NodeJS.ProcessEnv = process.env): Settings {
  return { path: env['PATH'] ?? '/usr/bin:/bin', n8n: env['ONWARD_BENCH_N8N'] || null };
}
