import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { namesListed } from '../architecture/entries.js';
import { type CodeFile, typeErrorsIn } from './fences.js';

/**
 * A code block that is part of a larger file: what it takes from its surroundings is declared
 * nowhere.
 */
export interface Excerpt extends CodeFile {
  /** The page and the line at which the block begins. */
  readonly place: string;
}

/**
 * Packages whose names the pages use without an import, beside those of this repository; the first
 * that has a name gives it.
 */
const OTHERS = [
  '@nestjs/common',
  '@nestjs/core',
  '@nestjs/testing',
  '@nestjs/swagger',
  'class-validator',
  'class-transformer',
  'rxjs',
  '@mikro-orm/decorators/legacy',
  '@mikro-orm/core',
  'typeorm',
  '@jest/globals',
  '@opentelemetry/exporter-prometheus',
];

/** Types that the pages mean by names which are also those of something else. */
const MEANT = { MessageEvent: '@nestjs/common', Request: 'express', Response: 'express' };

/** Packages that the root does not install, whose excerpts are compiled without their types. */
const ABSENT = [
  'ai',
  '@nestjs/graphql',
  '@ai-sdk/react',
  '@assistant-ui/react',
  '@assistant-ui/react-ai-sdk',
  '@opentelemetry/instrumentation-http',
  '@opentelemetry/instrumentation-pg',
  '@opentelemetry/sdk-node',
];

/**
 * Errors that an excerpt may have, since its surroundings are not shown: a name that is declared
 * elsewhere (2304, 2552, 18004, also as the type of a value, 2693), and what follows from one that
 * has no type. All else must hold: each import, option, property and argument.
 */
const OF_SURROUNDINGS = /error TS(?:2304|2552|18004|2693):/;
const OF_ABSENT = new RegExp(
  `error TS2307: Cannot find module '(?:${ABSENT.join('|')}|\\.{1,2}/[^']+)'`,
);

const COMPILED = {
  noImplicitAny: false,
  // An import that is made here does not say whether it is of a type.
  verbatimModuleSyntax: false,
  isolatedModules: false,
  emitDecoratorMetadata: false,
  jsx: 'react-jsx',
  module: 'esnext',
  moduleResolution: 'bundler', // a page of a browser leaves out the extension
};

/** The excerpts of a page: blocks of TypeScript and TSX that are not run. */
export function excerptsOf(page: string): readonly Excerpt[] {
  const text = readFileSync(page, 'utf8');
  return [...text.matchAll(/^```(tsx?) no-run\n(.*?)^```$/gms)].map(
    ({ 1: kind = 'ts', 2: code = '', index }) => {
      const line = text.slice(0, index).split('\n').length;
      const name = `${page.replaceAll(/[/.]/g, '-')}-${line}`;
      return { place: `${page}:${line}`, path: `excerpts/${name}.${kind}`, code: completed(code) };
    },
  );
}

/**
 * The errors of excerpts that do not come from what they leave out, each with the place of its
 * block.
 */
export async function errorsInExcerpts(excerpts: readonly Excerpt[]): Promise<readonly string[]> {
  const modules = await modulesByName();
  const files = excerpts.map(({ path, code }) => ({
    path,
    code: `${importsFor(code, modules)} export {};\n${code}`,
  }));
  const errors = typeErrorsIn(files, COMPILED);
  return errors
    .filter((error) => !OF_SURROUNDINGS.test(error) && !OF_ABSENT.test(error))
    .map((error) => placed(error, excerpts));
}

/**
 * Gives an excerpt what it leaves out by a sign: the bodies that it writes as `{ … }`, and the
 * class around members that begin with a decorator.
 */
function completed(code: string): string {
  const whole = code.replaceAll(/(\bclass [^{\n]*)?\{ … \}/g, (_all, head?: string) =>
    head === undefined ? '{ throw new Error(); }' : `${head}{}`,
  );
  const isMembers = whole.startsWith('@') && !/\bclass \w/.test(whole);
  return isMembers ? `class Excerpt { [elsewhere: string]: any;\n${whole}}\n` : whole;
}

/**
 * Imports what an excerpt uses and neither declares nor imports, all in the first line, so that the
 * lines of errors stay close to those of the page.
 */
function importsFor(code: string, modules: ReadonlyMap<string, string>): string {
  const used = new Set(code.match(/\b[A-Za-z]\w*\b/g));
  return [...used]
    .filter((name) => modules.has(name) && isOfPackage(name, code) && !isDeclared(name, code))
    .map((name) => `import { ${name} } from '${modules.get(name)}';`)
    .join(' ');
}

/** A name in lower case may be that of a variable; one that is called is a function's. */
function isOfPackage(name: string, code: string): boolean {
  return /^[A-Z]/.test(name) || new RegExp(`(?<![.\\w])${name}\\(`).test(code);
}

function isDeclared(name: string, code: string): boolean {
  return new RegExp(
    `\\b(?:class|const|let|function|function\\*|interface|type|enum) ${name}\\b|\\bimport\\b[^;]*\\b${name}\\b[^;]*\\bfrom\\b|[({,] *${name}(?::[^,)]*)?[,)}].*=>|\\bconst [{[][^=]*\\b${name}\\b[^=]*[}\\]] =`,
  ).test(code);
}

/** The module that exports each name: an entry of this repository, or else one of the others. */
async function modulesByName(): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  // Later ones take the place of those before.
  for (const module of OTHERS.toReversed())
    for (const name of Object.keys((await import(module)) as object))
      if (/^[A-Z]/.test(name)) found.set(name, module);
  const lists = globSync('test/architecture/exports/*.txt').toSorted((one, other) =>
    other.localeCompare(one),
  );
  for (const list of lists.filter((path) => !path.endsWith('/cli.txt')))
    for (const name of namesListed(list)) found.set(name, moduleOf(basename(list, '.txt')));
  for (const [name, module] of Object.entries(MEANT)) found.set(name, module);
  return found;
}

/**
 * The module of a list of names: `core-audit` is `@toolloop/core/audit`, and `ui-stream` a package.
 */
function moduleOf(list: string): string {
  const [, name = list, entry] = /^(core|protocol|resources|testing)-(.+)$/.exec(list) ?? [];
  return `@toolloop/${name}${entry === undefined ? '' : `/${entry}`}`;
}

function placed(error: string, excerpts: readonly Excerpt[]): string {
  const excerpt = excerpts.find(({ path }) => error.includes(`${path}(`));
  return `${excerpt?.place}: ${error.replace(/^.*?\((\d+),\d+\): /, (_all, line: string) => `line ${Number(line) - 1}: `)}`;
}
