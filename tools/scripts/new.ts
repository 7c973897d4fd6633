import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import ts from 'typescript';
import { LAYERS } from '../../test/architecture/layers.js';

const USAGE =
  'Usage: npm run new -- store|strategy|wire NAME, such as: npm run new -- strategy after-hours';
const TEMPLATES = 'tools/scripts/templates';
const KINDS: ReadonlySet<string> = new Set(['store', 'strategy', 'wire']);
const MOST_CHARACTERS = 32;

/**
 * A command that nothing was written for. The message is one line that says what to type instead.
 */
export class RefusedCommandError extends Error {
  override readonly name = 'RefusedCommandError';
}

/** The files of a change, as paths from the root of the repository, and the steps that are left. */
export interface WrittenFiles {
  readonly created: readonly string[];
  readonly extended: readonly string[];
  readonly next: string;
}

/**
 * Writes the files of a new store, injection strategy or wire. They are made from
 * `tools/scripts/templates/KIND`, which mirrors the repository: a file ending in `.append.txt` is added
 * to one that exists, any other becomes a file of its own. No file is replaced. Templates are read
 * below the working directory.
 *
 * @throws RefusedCommandError for a kind that does not exist, and for a name that is badly formed
 *   or taken; then nothing is written
 */
export async function writeNew(
  kind: string | undefined,
  name: string | undefined,
  root = '.',
): Promise<WrittenFiles> {
  const names = checkedNames(kind, name, root);
  const templates = globSync('libs/**/*.txt', { cwd: join(TEMPLATES, names.kind) }).toSorted();
  const files = templates.map((template) => ({
    path: filled(template, names).replace(/(\.append)?\.txt$/, ''),
    text: filled(readFileSync(join(TEMPLATES, names.kind, template), 'utf8'), {
      ...names,
      licence: readFileSync(join(root, 'LICENSE'), 'utf8').trim(),
    }),
    isAppended: template.endsWith('.append.txt'),
  }));
  const existing = files.find(
    ({ path, isAppended }) => !isAppended && existsSync(join(root, path)),
  );
  if (existing)
    throw new RefusedCommandError(
      `The ${names.kind} "${names.kebab}" is there already: ${existing.path} exists. Choose another name.`,
    );
  for (const { path, text, isAppended } of files) {
    const known = isAppended ? readFileSync(join(root, path), 'utf8') : '';
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), await formatted(path, known + text));
  }
  return {
    created: files.filter(({ isAppended }) => !isAppended).map(({ path }) => path),
    extended: files.filter(({ isAppended }) => isAppended).map(({ path }) => path),
    next: filled(readFileSync(join(TEMPLATES, names.kind, 'next.txt'), 'utf8'), names),
  };
}

type Names = Readonly<Record<'kind' | 'kebab' | 'camel' | 'Pascal' | 'words', string>>;

function checkedNames(kind: string | undefined, name: string | undefined, root: string): Names {
  if (kind === undefined || name === undefined || !KINDS.has(kind))
    throw new RefusedCommandError(USAGE);
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || name.length > MOST_CHARACTERS)
    throw new RefusedCommandError(
      `"${name}" is no name: write it in kebab-case with at most ${MOST_CHARACTERS} characters, such as after-hours.`,
    );
  if (name === kind || name.endsWith(`-${kind}`)) {
    throw new RefusedCommandError(
      `"${name}" says "${kind}" once more: the files add it. Choose a name without it.`,
    );
  }
  const camel = name.replaceAll(/-(\w)/g, (_dash, letter: string) => letter.toUpperCase());
  const Pascal = camel.charAt(0).toUpperCase() + camel.slice(1);
  const names = { kind, kebab: name, camel, Pascal, words: name.replaceAll('-', ' ') };
  const taken = takenName(names, root);
  if (taken !== undefined)
    throw new RefusedCommandError(`The name "${name}" is taken: ${taken}. Choose another one.`);
  return names;
}

/** The reason for which a name cannot be used; undefined where it is free. */
function takenName({ kind, kebab, camel, Pascal }: Names, root: string): string | undefined {
  if (kind === 'wire' && kebab in LAYERS) return 'test/architecture/layers.ts has a row for it';
  if (kind !== 'store' && isKeyword(camel)) return `"${camel}" is a word of TypeScript`;
  const own =
    {
      store: [`${Pascal}Store`, `${Pascal}Record`],
      strategy: [`${Pascal}Strategy`, camel],
      wire: [`${Pascal}Model`, camel],
    }[kind] ?? [];
  const lists = globSync('test/architecture/exports/*.txt', { cwd: root }).map((list) =>
    readFileSync(join(root, list), 'utf8'),
  );
  const exported = new Set(lists.flatMap((list) => list.split(/\s+/)));
  const clash = own.find((one) => exported.has(one));
  return clash && `a package exports ${clash}`;
}

function isKeyword(word: string): boolean {
  const scanner = ts.createScanner(ts.ScriptTarget.Latest, true);
  scanner.setText(word);
  return scanner.scan() !== ts.SyntaxKind.Identifier;
}

function filled(template: string, values: Readonly<Record<string, string>>): string {
  return template.replaceAll(/\{\{(\w+)\}\}/g, (_whole, name: string) => values[name] ?? '');
}

async function formatted(path: string, text: string): Promise<string> {
  if (!/\.(ts|json|md)$/.test(path)) return text;
  return format(text, { ...(await resolveConfig(path)), filepath: path });
}

/** Prints what was written and what is left to do; for a command that is refused, its one line. */
async function main(): Promise<void> {
  try {
    const { created, extended, next } = await writeNew(...commandLine());
    console.log(
      [
        ...created.map((path) => `created ${path}`),
        ...extended.map((path) => `extended ${path}`),
        '',
        next.trim(),
      ].join('\n'),
    );
  } catch (error) {
    if (!(error instanceof RefusedCommandError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

function commandLine(): [string | undefined, string | undefined] {
  const [, , kind, name, ...more] = process.argv;
  return more.length > 0 ? [undefined, undefined] : [kind, name];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
