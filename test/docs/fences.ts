import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { transform } from '@swc/core';

const CACHE = join(process.cwd(), 'node_modules', '.cache', 'toolloop-docs');

/** The code blocks of a Markdown file, in order; `language` is what follows the opening fence, e.g. `ts` or `ts no-run`. */
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

/** Imports a TypeScript code block as the module it is, packages of this repository included. */
export async function importFence(code: string): Promise<Record<string, unknown>> {
  const options = JSON.parse(readFileSync('.swcrc', 'utf8')) as object;
  const { code: javascript } = await transform(code, { ...options, swcrc: false, sourceMaps: false });
  return (await import(pathToFileURL(written(javascript, 'mjs')).href)) as Record<string, unknown>;
}

/** The compiler's errors in TypeScript code blocks, which it checks in one run; empty when all is well. */
export function typeErrorsIn(...codes: readonly string[]): string[] {
  const files = codes.map((code) => written(code, 'ts'));
  const config = written(
    JSON.stringify({ extends: join(process.cwd(), 'tsconfig.base.json'), compilerOptions: { noEmit: true }, files }),
    'json',
  );
  const { stdout } = spawnSync(process.execPath, ['node_modules/@typescript/native/bin/tsc', '-p', config], { encoding: 'utf8' });
  return stdout.split('\n').filter((line) => line.includes('toolloop-docs'));
}

/** Below `node_modules`, so that packages are found from there, and named by what is in it. */
function written(text: string, extension: string): string {
  mkdirSync(CACHE, { recursive: true });
  const name = createHash('sha256').update(text).digest('hex').slice(0, 16);
  const file = join(CACHE, `${name}.${extension}`);
  writeFileSync(file, text);
  return file;
}
