import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Manifest } from './packages.js';

/**
 * A package whose scripts are bundled: its folder in the repository, the one where it is published
 * from, and the files that it packs.
 */
interface Unbundled {
  readonly manifest: Manifest;
  readonly source: string;
  readonly folder: string;
  readonly paths: readonly string[];
}

/** The scripts of a package that are published in place of others. */
interface Bundled {
  readonly written: readonly string[];
  /** The files that are not copied. */
  readonly replaced: ReadonlySet<string>;
}

/** One package for `bundle.mjs`. The paths of modules are those within `from`, without `.js`. */
interface Bundling {
  readonly from: string;
  readonly to: string;
  readonly entries: readonly string[];
  readonly located: readonly string[];
  readonly whole?: string;
}

const BUILT = 'dist';

/**
 * The packages whose main entry is a single file: their other entries are imported beside it, and
 * each further file of an import costs as much as 100 lines.
 */
const WHOLE = new Set(['@toolloop/core', '@toolloop/protocol']);

/**
 * Bundles what `tsc` emitted of packages: an import then opens a few files instead of hundreds.
 * Declarations, assets and programs stay as they are. What tsc has emitted and no entry reaches is
 * left out: it has types alone.
 */
export function bundlePackages(packages: readonly Unbundled[]): readonly Bundled[] {
  const script = 'tools/release/bundle.mjs'; // the tests run a copy of this file elsewhere
  const input = JSON.stringify(packages.map(bundlingOf));
  const printed = execFileSync(process.execPath, [script], {
    input,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const outputs = JSON.parse(printed) as readonly (readonly string[])[];
  return outputs.map((files, index) => ({
    written: files.map((file) => join(BUILT, file)),
    replaced: new Set(emittedFiles(packages[index]?.paths ?? [])),
  }));
}

function bundlingOf({ manifest, source, folder, paths }: Unbundled): Bundling {
  const emitted = emittedFiles(paths);
  const targets = Object.values(manifest.exports ?? {}).flatMap((target) =>
    typeof target === 'string' ? [target] : Object.values(target),
  );
  const programs = Object.values(manifest.bin ?? {}).flatMap((path) => importsOf(source, path));
  const located = emitted.filter((path) => LOCATING.test(readFileSync(join(source, path), 'utf8')));
  const found = located.flatMap((path) => filesNamedIn(source, path));
  const entries = [...targets, ...programs, ...found]
    .map((path) => join(path))
    .filter((path) => emitted.includes(path));
  return {
    from: resolve(source, BUILT),
    to: resolve(folder, BUILT),
    entries: [...new Set(entries)].map(nameOf),
    located: located.map(nameOf),
    ...(WHOLE.has(manifest.name) && { whole: 'index' }),
  };
}

/**
 * The scripts that tsc emitted, which have declarations beside them; those of the console's page
 * have none.
 */
function emittedFiles(paths: readonly string[]): readonly string[] {
  const all = new Set(paths);
  return paths.filter(
    (path) =>
      path.startsWith(`${BUILT}/`) &&
      path.endsWith('.js') &&
      all.has(path.replace(/\.js$/, '.d.ts')),
  );
}

/** The way in which a module finds another file by its own address. */
const LOCATING = /new URL\([^;]*\.js[^;]*, import\.meta\.url\)/;

function filesNamedIn(source: string, path: string): readonly string[] {
  const [expression = ''] = LOCATING.exec(readFileSync(join(source, path), 'utf8')) ?? [];
  return Array.from(expression.matchAll(/['"](\.[^'"]+\.js)['"]/g), ([, file = '']) =>
    join(dirname(path), file),
  );
}

function importsOf(source: string, path: string): readonly string[] {
  const imports = readFileSync(join(source, path), 'utf8').matchAll(
    /^import (?:.* from )?'(\.[^']+)';$/gm,
  );
  return Array.from(imports, ([, file = '']) => join(dirname(path), file));
}

function nameOf(path: string): string {
  return path.slice(BUILT.length + 1).replace(/\.js$/, '');
}
