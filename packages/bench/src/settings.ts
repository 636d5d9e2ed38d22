/** The environment of the measuring process: its only reader. */
export type Settings = {
  /** For the processes that are started. */
  path: string;
};

export function readSettings(env: NodeJS.ProcessEnv = process.env): Settings {
  return { path: env['PATH'] ?? '/usr/bin:/bin' };
}
