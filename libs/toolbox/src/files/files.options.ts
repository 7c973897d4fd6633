import { ConfigurationError } from '@toolloop/core';
import { RootDirectory } from './root.directory.js';

/** Which files a tool may read. */
export interface FilesOptions {
  /** The directory; nothing outside of it can be read. */
  readonly root: string;
  /** Whether files and directories whose name begins with a dot can be read. They often hold secrets. @default false */
  readonly hidden?: boolean;
  /** Bytes of the largest file that is read. @default 20_000_000 */
  readonly maxFileBytes?: number;
}

export const MAX_FILE_BYTES = 20_000_000;

/** Throws a `ConfigurationError` when no directory is named: the current one would be a guess. */
export function rootOf(tool: string, { root, hidden = false }: FilesOptions): RootDirectory {
  if (root.trim() !== '') return new RootDirectory(root, hidden);
  throw new ConfigurationError([{ at: tool, problem: 'no directory is named.', remedy: 'Pass { root }.' }]);
}
