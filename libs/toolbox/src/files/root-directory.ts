import { constants, type BigIntStats, type Dirent } from 'node:fs';
import { lstat, open, opendir, readlink, realpath, type FileHandle } from 'node:fs/promises';
import { isAbsolute, join, posix, relative, sep, win32 } from 'node:path';
import { ConfigurationError, ToolError } from '@toolloop/core';

/**
 * The only directory that a tool may read. Symbolic links are followed if they lead to another
 * place below the root; hidden files, whose name or directory begins with a dot, cannot be read
 * unless `hidden` is set, by whatever name they are reached.
 */
export class RootDirectory {
  constructor(
    private readonly directory: string,
    readonly hidden: boolean,
  ) {}

  /**
   * Opens a file by its path relative to the root. The opened file is asked where it is, not its
   * path: between any two looks at a path a directory may become a link.
   *
   * @throws ToolError if there is no such file; a file outside of the root gives the same message
   */
  async open(path: string): Promise<OpenFile> {
    const root = await this.path();
    const real = await this.resolve(root, this.checked(path));
    const handle = await open(real, FLAGS).catch(() => undefined);
    if (!handle) throw missing();
    try {
      const opened = await handle.stat({ bigint: true });
      if (!opened.isFile())
        throw new ToolError(
          'That is not a file. Use files__search to list what is in a directory.',
        );
      if (!(await this.holds(root, handle, real, opened))) throw missing();
      return { handle, size: Number(opened.size) };
    } catch (error) {
      await handle.close();
      throw error instanceof ToolError ? error : missing();
    }
  }

  /**
   * Compares the path of an open file with the root. If the system does not tell that path, the
   * path of the name is looked at once more, which a directory that is swapped twice can deceive.
   */
  private async holds(
    root: string,
    handle: FileHandle,
    real: string,
    opened: BigIntStats,
  ): Promise<boolean> {
    const place = await placeOf(handle);
    if (place !== undefined) return this.isInside(relative(root, place));
    return (
      (await this.resolve(root, real)) === real &&
      isSame(opened, await lstat(real, { bigint: true }))
    );
  }

  /**
   * Resolves the root itself, free of links.
   *
   * @throws ToolError if it does not exist
   */
  async path(): Promise<string> {
    try {
      return await realpath(this.directory);
    } catch (cause) {
      throw new ToolError(
        'The directory of the files cannot be read. Answer without it, and say so.',
        { cause },
      );
    }
  }

  /** Checks by its form that a relative path stays below the root. */
  private checked(path: string): string {
    const segments = path.split(/[\\/]/);
    const elsewhere =
      path === '' ||
      path.includes('\0') ||
      posix.isAbsolute(path) ||
      win32.isAbsolute(path) ||
      /^[a-zA-Z]:/.test(path);
    if (elsewhere || segments.includes('..'))
      throw new ToolError('Give a path below the root, without "..", such as src/main.ts.');
    return path;
  }

  private async resolve(root: string, path: string): Promise<string> {
    const real = await realpath(isAbsolute(path) ? path : join(root, path)).catch(() => undefined);
    if (real === undefined || !this.isInside(relative(root, real))) throw missing();
    return real;
  }

  private isInside(path: string): boolean {
    if (path === '' || isAbsolute(path)) return path === '';
    const segments = path.split(sep);
    return (
      segments[0] !== '..' && (this.hidden || segments.every((segment) => !segment.startsWith('.')))
    );
  }
}

/** A regular file below the root. The caller has to close the handle. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly size: number;
}

/**
 * The flags of `open`. O_NONBLOCK: opening a pipe must not wait for a writer. Windows has neither
 * flag.
 */
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** The path of what a descriptor has open, as Linux tells it; undefined on other systems. */
async function placeOf({ fd }: FileHandle): Promise<string | undefined> {
  return readlink(`/proc/self/fd/${fd}`).catch(() => undefined);
}

function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

function missing(): ToolError {
  return new ToolError('There is no such file. Use files__search to find it.');
}

/** The options for the files that a tool may read. */
export interface FilesOptions {
  /** The directory; no file outside of it can be read. */
  readonly root: string;
  /**
   * Allows files and directories whose name begins with a dot. They often hold secrets. @default
   * false
   */
  readonly hidden?: boolean;
  /** The size of the largest file that is read, in bytes. @default 20_000_000 */
  readonly maxFileBytes?: number;
}

export const MAX_FILE_BYTES = 20_000_000;

/**
 * Checks that a directory is named: the current one would be a guess.
 *
 * @throws ConfigurationError if none is
 */
export function rootOf(tool: string, { root, hidden = false }: FilesOptions): RootDirectory {
  if (root.trim() !== '') return new RootDirectory(root, hidden);
  throw new ConfigurationError([
    { at: tool, problem: 'no directory is named.', remedy: 'Pass { root }.' },
  ]);
}

/** The limits of a walk, and the directories that it leaves out. */
export interface WalkOptions {
  readonly root: RootDirectory;
  readonly signal: AbortSignal;
  /** Tells whether a directory is left out, by its relative path. */
  readonly isExcluded: (path: string) => boolean;
  /** Called for every entry; `false` ends the walk. */
  readonly onEntry: () => boolean;
}

/**
 * Yields the files below a root as relative paths with slashes, by name, a directory's own files
 * first. Skips links and unreadable directories.
 */
export async function* walkFiles({
  root,
  signal,
  isExcluded,
  onEntry,
}: WalkOptions): AsyncGenerator<string, void, undefined> {
  const base = await root.path();
  const waiting = [''];
  for (let directory = waiting.pop(); directory !== undefined; directory = waiting.pop()) {
    signal.throwIfAborted();
    const { entries, complete } = await entriesOf(join(base, directory), onEntry);
    const shown = entries.filter(({ name }) => root.hidden || !name.startsWith('.'));
    const at = (name: string) => (directory === '' ? name : `${directory}/${name}`);
    for (const entry of shown)
      if (entry.isFile() && !isExcluded(at(entry.name))) yield at(entry.name);
    if (!complete) return;
    const below = shown.filter((entry) => entry.isDirectory() && !isExcluded(at(entry.name)));
    waiting.push(...below.map(({ name }) => at(name)).toReversed());
  }
}

interface Entries {
  readonly entries: readonly Dirent[];
  readonly complete: boolean;
}

/**
 * Lists a directory through its descriptor where the system tells what that has open; elsewhere by
 * its path, which is looked at once more.
 */
async function entriesOf(directory: string, onEntry: () => boolean): Promise<Entries> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(directory, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
    const place = await placeOf(handle);
    const listed = await listedEntries(
      place === undefined ? directory : `/proc/self/fd/${handle.fd}`,
      onEntry,
    );
    return (place ?? (await realpath(directory))) === directory ? listed : NO_ENTRIES;
  } catch {
    return NO_ENTRIES;
  } finally {
    await handle?.close();
  }
}

const NO_ENTRIES: Entries = { entries: [], complete: true };

async function listedEntries(directory: string, onEntry: () => boolean): Promise<Entries> {
  const entries: Dirent[] = [];
  let complete = true;
  for await (const entry of await opendir(directory)) {
    complete = onEntry();
    if (!complete) break;
    entries.push(entry);
  }
  return { entries: entries.toSorted((a, b) => (a.name < b.name ? -1 : 1)), complete };
}
