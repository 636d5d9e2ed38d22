/**
 * Folders in places that everybody may write to (/var/tmp), safe to run programs from.
 *
 * Another account may have made the folder first and filled it with its own programs; such a folder is refused.
 */
import { chmodSync, lstatSync, mkdirSync } from 'node:fs';

/** Makes the folder, or takes it when it is ours alone to write. `mode` is 0o700, or 0o755 when others may read. Throws otherwise. */
export function ensureOwnFolder(folder: string, mode: 0o700 | 0o755): string {
  mkdirSync(folder, { recursive: true, mode });
  const found = lstatSync(folder);
  if (!found.isDirectory() || (process.getuid !== undefined && found.uid !== process.getuid())) {
    throw new Error(`${folder} belongs to another account: remove it, it cannot be trusted`);
  }
  if ((found.mode & 0o777) !== mode) chmodSync(folder, mode);
  return folder;
}
