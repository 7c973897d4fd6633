import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import ts from 'typescript';
import { circlesOf, type Graph } from './circles.js';
import { docstringShape, type DocstringShape } from './docstrings.js';
import { filesOf } from './imports.js';

/** The shape of the sources of one library, in figures. */
export interface Shape extends DocstringShape {
  readonly files: number;
  /** Lines of the longest named function, as an editor counts them. */
  readonly longestFunction: number;
  /**
   * Files in the largest circle of imports with types, and in the largest without them; 0 if there
   * is none.
   */
  readonly largestTypeCircle: number;
  readonly largestValueCircle: number;
  readonly functionParameters: number;
  readonly constructorParameters: number;
  /** File names with a dot before something else than one of Nest's roles. */
  readonly oddFileNames: number;
}

/** The sources of a library: text by path. */
export type Sources = ReadonlyMap<string, string>;

interface FileFacts {
  readonly file: string;
  readonly imports: readonly ImportFact[];
  readonly functions: readonly FunctionFact[];
}

interface ImportFact {
  /** The imported file; undefined for a package. */
  readonly target: string | undefined;
  readonly isTypeOnly: boolean;
}

interface FunctionFact {
  readonly lines: number;
  readonly parameters: number;
  readonly isConstructor: boolean;
}

/** Dots stand before these roles only. */
const ROLES = /\.(module|service|controller|decorator|guard|dto|error|spec)$/;

export function sourcesOf(folder: string): Sources {
  return new Map(filesOf(folder).map((file) => [file, readFileSync(file, 'utf8')]));
}

/**
 * Measures sources. `publicNames` are the names that the library exports, whose documentation
 * counts.
 */
export function shapeOf(sources: Sources, publicNames: ReadonlySet<string> = new Set()): Shape {
  const parsed = [...sources].map(([file, text]) =>
    ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true),
  );
  const facts = parsed.map(factsOf);
  const functions = facts.flatMap((file) => file.functions);
  return {
    files: facts.length,
    longestFunction: largest(functions.map((one) => one.lines)),
    largestTypeCircle: largest(circlesOf(graphOf(facts, () => true))),
    largestValueCircle: largest(circlesOf(graphOf(facts, ({ isTypeOnly }) => !isTypeOnly))),
    functionParameters: largest(
      functions.filter((one) => !one.isConstructor).map((one) => one.parameters),
    ),
    constructorParameters: largest(
      functions.filter((one) => one.isConstructor).map((one) => one.parameters),
    ),
    oddFileNames: facts.filter(({ file }) =>
      posix.basename(file, '.ts').replace(ROLES, '').includes('.'),
    ).length,
    ...docstringShape(parsed, publicNames),
  };
}

function factsOf(source: ts.SourceFile): FileFacts {
  const functions: FunctionFact[] = [];
  const visit = (node: ts.Node): void => {
    const found = functionFact(node, source);
    if (found) functions.push(found);
    ts.forEachChild(node, visit);
  };
  visit(source);
  const imports = source.statements.flatMap((statement) => importFact(statement, source.fileName));
  return { file: source.fileName, imports, functions };
}

function functionFact(node: ts.Node, source: ts.SourceFile): FunctionFact | undefined {
  const isNamed =
    ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isConstructorDeclaration(node) ||
    ts.isAccessor(node);
  if (!isNamed || !node.body) return undefined;
  const lineOf = (position: number): number => source.getLineAndCharacterOfPosition(position).line;
  const lines = lineOf(node.end) - lineOf(node.getStart(source)) + 1;
  return {
    lines,
    parameters: node.parameters.length,
    isConstructor: ts.isConstructorDeclaration(node),
  };
}

function importFact(statement: ts.Statement, file: string): ImportFact[] {
  const isImport = ts.isImportDeclaration(statement);
  const specifier =
    isImport || ts.isExportDeclaration(statement) ? statement.moduleSpecifier : undefined;
  if (!specifier || !ts.isStringLiteral(specifier)) return [];
  const isRelative = specifier.text.startsWith('.');
  const target = isRelative
    ? posix.join(posix.dirname(file), specifier.text.replace(/\.js$/, '.ts'))
    : undefined;
  const isTypeOnly = isImport
    ? importsTypesOnly(statement.importClause)
    : ts.isExportDeclaration(statement) && statement.isTypeOnly;
  return [{ target, isTypeOnly }];
}

function importsTypesOnly(clause: ts.ImportClause | undefined): boolean {
  if (!clause) return false;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  const names =
    clause.namedBindings && ts.isNamedImports(clause.namedBindings)
      ? clause.namedBindings.elements
      : [];
  return !clause.name && names.length > 0 && names.every(({ isTypeOnly }) => isTypeOnly);
}

function graphOf(facts: readonly FileFacts[], isCounted: (found: ImportFact) => boolean): Graph {
  return new Map(
    facts.map(({ file, imports }) => [
      file,
      new Set(imports.filter(isCounted).flatMap(({ target }) => target ?? [])),
    ]),
  );
}

function largest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), 0);
}
