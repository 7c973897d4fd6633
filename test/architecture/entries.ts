import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, posix, resolve } from 'node:path';
import ts from 'typescript';

/** One entry of a package: what `exports` of its package.json names, `.` or a subpath. */
export interface Entry {
  readonly subpath: string;
  /** The source of the entry, relative to the repository. */
  readonly file: string;
}

/** A name that a package exports. A class is a value, though it is a type as well. */
export interface ExportedName {
  readonly name: string;
  readonly kind: 'value' | 'type';
}

type Manifest = {
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
};

/** The entries of a package whose sources are TypeScript, the main entry first. */
export function entriesOf(packageFolder: string): readonly Entry[] {
  const manifest = JSON.parse(
    readFileSync(posix.join(packageFolder, 'package.json'), 'utf8'),
  ) as Manifest;
  return Object.entries(manifest.exports ?? {}).flatMap(([subpath, target]) => {
    const source = typeof target === 'string' ? undefined : target['@toolloop/source'];
    return source === undefined ? [] : [{ subpath, file: posix.join(packageFolder, source) }];
  });
}

/** The names that the entries export, by the file of the entry and in alphabetical order. */
export function namesOf(files: readonly string[]): ReadonlyMap<string, readonly ExportedName[]> {
  const program = ts.createProgram({
    rootNames: [...files],
    options: OPTIONS,
    host: relativeHost(),
  });
  const checker = program.getTypeChecker();
  return new Map(
    files.map((file) => {
      const source = program.getSourceFile(file);
      const module = source && checker.getSymbolAtLocation(source);
      return [
        file,
        module
          ? checker
              .getExportsOfModule(module)
              .map((symbol) => exportedName(symbol, checker))
              .toSorted(byName)
          : [],
      ];
    }),
  );
}

/** The text of a checked-in list: one name a line. */
export function listOf(names: readonly ExportedName[]): string {
  return names.map(({ name, kind }) => `${name} ${kind}\n`).join('');
}

/** The names of a checked-in list, which `exports.spec.ts` holds to be those of the entry. */
export function namesListed(list: string): readonly string[] {
  return readFileSync(list, 'utf8')
    .split('\n')
    .flatMap((line) => line.split(' ', 1))
    .filter((name) => name !== '');
}

/** The file of the checked-in list of an entry, e.g. `core.txt` and `core-stores.txt`. */
export function listFileOf(packageFolder: string, { subpath }: Entry): string {
  const parts = [basename(packageFolder), ...subpath.split('/').filter((part) => part !== '.')];
  return `test/architecture/exports/${parts.join('-')}.txt`;
}

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.NodeNext,
  noLib: true,
  types: [],
};

/**
 * Reads the repository's own files alone: which names exist, and whether they are values, is said
 * there.
 */
function relativeHost(): ts.CompilerHost {
  return {
    ...ts.createCompilerHost(OPTIONS),
    resolveModuleNameLiterals: (literals, from) =>
      literals.map(({ text }) => resolvedModule(text, from)),
  };
}

function resolvedModule(name: string, from: string): ts.ResolvedModuleWithFailedLookupLocations {
  const file = resolve(dirname(from), name.replace(/\.js$/, '.ts'));
  const isOurs = name.startsWith('.') && existsSync(file);
  return {
    resolvedModule: isOurs ? { resolvedFileName: file, extension: ts.Extension.Ts } : undefined,
  };
}

function exportedName(symbol: ts.Symbol, checker: ts.TypeChecker): ExportedName {
  const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
  const isTypeOnly =
    symbol.declarations?.some((declaration) => ts.isTypeOnlyExportDeclaration(declaration)) ===
    true;
  const meant = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
  // What is exported again from another package cannot be followed here: the word `type` decides
  // then.
  const isKnown = meant.declarations !== undefined;
  const isValue = !isTypeOnly && (!isKnown || (meant.flags & ts.SymbolFlags.Value) !== 0);
  return { name: symbol.name, kind: isValue ? 'value' : 'type' };
}

function byName(one: ExportedName, other: ExportedName): number {
  return one.name < other.name ? -1 : 1;
}
