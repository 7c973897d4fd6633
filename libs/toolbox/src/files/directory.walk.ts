import type { Dirent } from 'node:fs';
import { opendir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { RootDirectory } from './root.directory.js';

/** What a walk may cost and what it passes by. */
export interface WalkOptions {
  readonly root: RootDirectory;
  readonly signal: AbortSignal;
  /** Whether a directory is left out, by its relative path. */
  readonly isExcluded: (path: string) => boolean;
  /** Called for every entry; false ends the walk. */
  readonly onEntry: () => boolean;
}

/** The files below a root as relative paths with slashes, by name, a directory's own files first. Links and unreadable directories are left out. */
export async function* walkFiles({ root, signal, isExcluded, onEntry }: WalkOptions): AsyncGenerator<string, void, undefined> {
  const base = await root.path();
  const waiting = [''];
  for (let directory = waiting.pop(); directory !== undefined; directory = waiting.pop()) {
    signal.throwIfAborted();
    const { entries, complete } = await entriesOf(join(base, directory), onEntry);
    const shown = entries.filter(({ name }) => root.hidden || !name.startsWith('.'));
    const at = (name: string) => (directory === '' ? name : `${directory}/${name}`);
    for (const entry of shown) if (entry.isFile() && !isExcluded(at(entry.name))) yield at(entry.name);
    if (!complete) return;
    const below = shown.filter((entry) => entry.isDirectory() && !isExcluded(at(entry.name)));
    waiting.push(...below.map(({ name }) => at(name)).toReversed());
  }
}

interface Entries {
  readonly entries: readonly Dirent[];
  readonly complete: boolean;
}

async function entriesOf(directory: string, onEntry: () => boolean): Promise<Entries> {
  const entries: Dirent[] = [];
  try {
    let complete = true;
    for await (const entry of await opendir(directory)) {
      complete = onEntry();
      if (!complete) break;
      entries.push(entry);
    }
    // It was a directory, not a link, when it was listed; if it has become one since, what was read is from elsewhere.
    if ((await realpath(directory)) !== directory) return { entries: [], complete: true };
    return { entries: entries.toSorted((a, b) => (a.name < b.name ? -1 : 1)), complete };
  } catch {
    return { entries: [], complete: true };
  }
}
