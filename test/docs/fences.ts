import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { transform } from '@swc/core';

const CACHE = join(process.cwd(), 'node_modules', '.cache', 'toolloop-docs');

/**
 * The code blocks of a Markdown file, in order; `language` is what follows the opening fence, e.g.
 * `ts` or `ts no-run`.
 */
export function fencesOf(file: string, language: string): string[] {
  const blocks = readFileSync(file, 'utf8').matchAll(/^```([^\n]*)\n(.*?)^```$/gms);
  return [...blocks].filter(([, info]) => info?.trim() === language).map(([, , code = '']) => code);
}

/** The code block of output that follows the commands in which something is said. */
export function shownAfter(file: string, said: string): string {
  const [, , shown = ''] =
    readFileSync(file, 'utf8')
      .split(/^```sh\n/m)
      .slice(1)
      .find((part) => part.split('```')[0]?.includes(said))
      ?.split(/^```(?:text)?\n/m) ?? [];
  return shown;
}

/**
 * A TypeScript code block as a file, at a path below the cache. Those of one page that have names
 * are beside each other, so that one imports the other.
 */
export interface CodeFile {
  readonly path: string;
  readonly code: string;
}

/**
 * The TypeScript code blocks of a page as files: one whose fence names a file (```ts [orders.ts])
 * has that name.
 */
export function codeFilesOf(page: string): CodeFile[] {
  const blocks = [
    ...readFileSync(page, 'utf8').matchAll(/^```ts(?: \[([\w./-]+)\])?\n(.*?)^```$/gms),
  ];
  return blocks.map(([, name, code = '']) => ({
    code,
    path: name === undefined ? `${hashOf(code)}.ts` : join(folderOf(page), name),
  }));
}

/** Imports a TypeScript code block as the module it is, packages of this repository included. */
export async function importFence(code: string): Promise<Record<string, unknown>> {
  return importFile({ path: `${hashOf(code)}.ts`, code });
}

/**
 * Writes the code blocks of a page as JavaScript, so that they can import each other. What they
 * take from Vitest, they get from Jest, each title behind that of the page.
 */
export async function importPage(page: string): Promise<readonly Record<string, unknown>[]> {
  const files = codeFilesOf(page);
  written(join(folderOf(page), 'vitest.mjs'), VITEST.replace('PAGE', page));
  for (const file of files) await translated(file);
  const modules: Record<string, unknown>[] = [];
  for (const { path } of files) modules.push(await imported(path));
  return modules;
}

/**
 * The compiler's errors in TypeScript code blocks, which it checks in one run; empty when all is
 * well.
 */
export function typeErrorsIn(
  codes: readonly (string | CodeFile)[],
  further: object = {},
): string[] {
  const given = codes.map((code) =>
    typeof code === 'string' ? { path: `${hashOf(code)}.ts`, code } : code,
  );
  const files = given.map(({ path, code }) => written(path, code));
  const vitest = written('vitest.d.ts', "export * from '@jest/globals';\n");
  const compilerOptions = { noEmit: true, paths: { vitest: [vitest] }, ...further };
  const config = JSON.stringify({
    extends: join(process.cwd(), 'tsconfig.base.json'),
    compilerOptions,
    files,
  });
  const project = written(`${hashOf(config)}.json`, config);
  const { stdout } = spawnSync(
    process.execPath,
    ['node_modules/@typescript/native/bin/tsc', '-p', project],
    { encoding: 'utf8' },
  );
  return stdout.split('\n').filter((line) => line.includes('toolloop-docs'));
}

/**
 * The names of Vitest that pages use, as Jest has them: a page shows what `nest new` brings, and
 * the tests of this repository run it.
 */
const VITEST = `import * as jest from '@jest/globals';
const titled = (run) => (title, ...rest) => run('PAGE: ' + title, ...rest);
export const { expect, beforeAll, beforeEach, afterAll, afterEach } = jest;
export const it = titled(jest.it);
export const test = it;
export const describe = titled(jest.describe);
`;

async function importFile(file: CodeFile): Promise<Record<string, unknown>> {
  await translated(file);
  return imported(file.path);
}

async function imported(path: string): Promise<Record<string, unknown>> {
  return (await import(pathToFileURL(join(CACHE, asJavaScript(path))).href)) as Record<
    string,
    unknown
  >;
}

/** Translates a file, and has its imports of other files name what those are translated to. */
async function translated({ path, code }: CodeFile): Promise<void> {
  const options = JSON.parse(readFileSync('.swcrc', 'utf8')) as object;
  const { code: javascript } = await transform(code, {
    ...options,
    swcrc: false,
    sourceMaps: false,
  });
  const [folder = ''] = path.split('/');
  const vitest = `./${relative(dirname(path), join(folder, 'vitest.mjs'))}`;
  written(
    asJavaScript(path),
    javascript
      .replaceAll(/(from\s+['"]\.[^'"]*)\.js(['"])/g, '$1.mjs$2')
      .replaceAll(/(['"])vitest\1/g, `'${vitest}'`),
  );
}

function asJavaScript(path: string): string {
  return path.replace(/\.ts$/, '.mjs');
}

function folderOf(page: string): string {
  return page.replace(/\.md$/, '').replaceAll('/', '-');
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Below `node_modules`, so that packages are found from there. */
function written(path: string, text: string): string {
  const file = join(CACHE, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}
