import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** From the project's root, so that the compiled specs find the files too. */
const FOLDER = join(process.cwd(), 'libs/anthropic/test/golden');

export function readGolden(name: string): string {
  return readFileSync(join(FOLDER, name), 'utf8');
}

/** The kept file's text, to compare with. A missing one is a failure: only `UPDATE_GOLDEN=1` writes, and then the change is to be read. */
export function goldenFor(name: string, actual: string): string {
  const path = join(FOLDER, name);
  if (process.env.UPDATE_GOLDEN === '1') writeFileSync(path, actual);
  if (!existsSync(path)) throw new Error(`There is no golden file ${name}. Write it with UPDATE_GOLDEN=1 and read what it says.`);
  return readFileSync(path, 'utf8');
}
