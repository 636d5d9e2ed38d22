/** The environment of the measuring process: its only reader. */
export type Settings = {
  /** For the processes that are started. */
  path: string;
  /** A folder in which `npm i n8n@2.41.1 --ignore-scripts` was run; null: n8n is not measured. */
  n8nFolder: string | null;
};

export function readSettings(env: NodeJS.ProcessEnv = process.env): Settings {
  return { path: env['PATH'] ?? '/usr/bin:/bin', n8nFolder: env['ONWARD_BENCH_N8N'] || null };
}
