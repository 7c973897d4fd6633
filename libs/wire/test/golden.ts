import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Files that are kept beside the specs of one library. The path is from the project's root, so that
 * the compiled specs find the files too.
 */
export class GoldenFiles {
  private readonly folder: string;

  constructor(library: string) {
    this.folder = join(process.cwd(), 'libs', library, 'test/golden');
  }

  read(name: string): string {
    return readFileSync(join(this.folder, name), 'utf8');
  }

  /**
   * The kept file's text, to compare with. A missing one is a failure: only `UPDATE_GOLDEN=1`
   * writes, and then the change is to be read.
   */
  keep(name: string, actual: string): string {
    const path = join(this.folder, name);
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(path, actual);
    if (!existsSync(path))
      throw new Error(
        `There is no golden file ${name}. Write it with UPDATE_GOLDEN=1 and read what it says.`,
      );
    return readFileSync(path, 'utf8');
  }
}
