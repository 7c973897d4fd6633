// Builds the page of the console where its sources have changed since; an unchanged one costs some
// milliseconds.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';

const pathOf = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const SOURCES = [
  'page',
  'vite.config.ts',
  '../react/src',
  '../client/src',
  '../../package-lock.json',
];
const mark = pathOf('dist/page/.sources');

function filesIn(path) {
  if (!existsSync(path)) return [];
  try {
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .sort();
  } catch {
    return [path];
  }
}

const hash = createHash('sha256');
for (const file of SOURCES.flatMap((source) => filesIn(pathOf(source))))
  hash.update(file.slice(pathOf('.').length)).update(readFileSync(file));
const sources = hash.digest('hex');

if (!existsSync(mark) || readFileSync(mark, 'utf8') !== sources) {
  const { build } = await import('vite');
  await build({ configFile: pathOf('vite.config.ts'), logLevel: 'warn' });
  writeFileSync(mark, sources);
}
