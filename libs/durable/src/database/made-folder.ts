import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ConfigurationError } from '@toolloop/core';
import { fromError } from './from-error.js';

/** For its owner alone, with what is missing above it. Node's own `recursive` goes round for ever where nothing can be made, as in `/proc`. */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    const { code } = fromError(error);
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(folder) === folder) throw error;
    await makeFolder(dirname(folder));
    await mkdir(folder, { mode: 0o700 }).catch(ignoreExisting);
  }
}

/** Two processes may make it at once. */
function ignoreExisting(error: unknown): void {
  if (fromError(error).code !== 'EEXIST') throw error;
}

/** Why nothing can be kept in a folder, and what to do. */
export function unusableFolder(folder: string, error: unknown): ConfigurationError {
  const { code, message } = fromError(error);
  return new ConfigurationError([
    {
      at: 'DurableModule dataDir',
      problem: `The folder ${resolve(folder)} cannot be created or written to: ${message || code}.`,
      remedy: 'Name a folder that this process may create and write to, or use a PostgreSQL server instead (url).',
    },
  ]);
}
