import { constants, type BigIntStats } from 'node:fs';
import { lstat, open, realpath, type FileHandle } from 'node:fs/promises';
import { isAbsolute, join, posix, relative, sep, win32 } from 'node:path';
import { ToolError } from '@toolloop/core';

/** A regular file below the root. Whoever opened it closes the handle. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly size: number;
}

/** O_NONBLOCK: opening a pipe must not wait for a writer. Windows has neither flag. */
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * The one directory a tool may read. Symbolic links are followed where they lead to another place below the root; hidden files, whose name or
 * directory begins with a dot, are out of bounds unless `hidden` is set, by whatever name they are reached.
 */
export class RootDirectory {
  constructor(
    private readonly directory: string,
    readonly hidden: boolean,
  ) {}

  /**
   * Opens a file by its path relative to the root. What was opened is checked, not what was asked for: between a check and `open` a directory may
   * have become a link. Throws a `ToolError`; a file outside and a file that is not there sound the same.
   */
  async open(path: string): Promise<OpenFile> {
    const root = await this.path();
    const real = await this.resolve(root, this.checked(path));
    const handle = await open(real, FLAGS).catch(() => undefined);
    if (!handle) throw missing();
    try {
      const opened = await handle.stat({ bigint: true });
      if (!opened.isFile()) throw new ToolError('That is not a file. Use files__search to list what is in a directory.');
      if ((await this.resolve(root, real)) !== real || !isSame(opened, await lstat(real, { bigint: true }))) throw missing();
      return { handle, size: Number(opened.size) };
    } catch (error) {
      await handle.close();
      throw error instanceof ToolError ? error : missing();
    }
  }

  /** The root itself, free of links. Throws a `ToolError` when it is not there. */
  async path(): Promise<string> {
    try {
      return await realpath(this.directory);
    } catch (cause) {
      throw new ToolError('The directory of the files cannot be read. Answer without it, and say so.', { cause });
    }
  }

  /** The relative path, when its form alone does not lead out. */
  private checked(path: string): string {
    const segments = path.split(/[\\/]/);
    const elsewhere = path === '' || path.includes('\0') || posix.isAbsolute(path) || win32.isAbsolute(path) || /^[a-zA-Z]:/.test(path);
    if (elsewhere || segments.includes('..')) throw new ToolError('Give a path below the root, without "..", such as src/main.ts.');
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
    return segments[0] !== '..' && (this.hidden || segments.every((segment) => !segment.startsWith('.')));
  }
}

function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

function missing(): ToolError {
  return new ToolError('There is no such file. Use files__search to find it.');
}
