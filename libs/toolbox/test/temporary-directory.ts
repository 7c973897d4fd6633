import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A directory with files in it, gone at the end of the block. */
export class TemporaryDirectory implements AsyncDisposable {
  private constructor(readonly path: string) {}

  static async with(
    files: Readonly<Record<string, string | Buffer>> = {},
  ): Promise<TemporaryDirectory> {
    const directory = new TemporaryDirectory(await mkdtemp(join(tmpdir(), 'toolbox-')));
    await Promise.all(
      Object.entries(files).map(([path, content]) => directory.write(path, content)),
    );
    return directory;
  }

  at(path: string): string {
    return join(this.path, path);
  }

  async write(path: string, content: string | Buffer): Promise<void> {
    await mkdir(dirname(this.at(path)), { recursive: true });
    await writeFile(this.at(path), content);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}
