import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import ts from 'typescript';
import { circlesOf, type Graph } from './circles.js';
import { docstringShape, type DocstringShape } from './docstrings.js';
import { filesOf } from './imports.js';

/** The shape of the sources of one library, in figures; lines are all lines of a file, as an editor counts them. */
export interface Shape extends DocstringShape {
  readonly files: number;
  readonly lines: number;
  /** Files in the folder with the most. */
  readonly largestFolder: number;
  /** Lines of the longest file, and of the longest named function. */
  readonly longestFile: number;
  readonly longestFunction: number;
  readonly linesPerImport: number;
  /** Files that exactly one other file imports, in percent of all; entries and modules do not count as importers. */
  readonly oneImporterPercent: number;
  /** Files in the largest circle of imports with types, and in the largest without them; 0 where there is none. */
  readonly largestTypeCircle: number;
  readonly largestValueCircle: number;
  readonly injectables: number;
  /** Providers that the modules list. */
  readonly moduleProviders: number;
  readonly functionParameters: number;
  readonly constructorParameters: number;
  /** File names with a dot before something else than one of Nest's roles. */
  readonly oddFileNames: number;
}

/** The sources of a library: text by path. */
export type Sources = ReadonlyMap<string, string>;

interface FileFacts {
  readonly file: string;
  readonly lines: number;
  readonly imports: readonly ImportFact[];
  readonly functions: readonly FunctionFact[];
  readonly injectables: number;
  readonly moduleProviders: number;
}

interface ImportFact {
  /** The imported file; undefined for a package. */
  readonly target: string | undefined;
  readonly isTypeOnly: boolean;
  /** An import, and not an export of what another file has. */
  readonly isImport: boolean;
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

/** Measures sources. `publicNames` are the names that the library exports, whose documentation counts. */
export function shapeOf(sources: Sources, publicNames: ReadonlySet<string> = new Set()): Shape {
  const parsed = [...sources].map(([file, text]) => ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  const facts = parsed.map(factsOf);
  const functions = facts.flatMap((file) => file.functions);
  const lines = sum(facts.map((file) => file.lines));
  return {
    files: facts.length,
    lines,
    largestFolder: largestFolder(facts.map(({ file }) => file)),
    longestFile: largest(facts.map((file) => file.lines)),
    longestFunction: largest(functions.map((one) => one.lines)),
    linesPerImport: rounded(lines / Math.max(1, sum(facts.map(({ imports }) => imports.filter(({ isImport }) => isImport).length)))),
    oneImporterPercent: percent(filesWithOneImporter(facts), facts.length),
    largestTypeCircle: largest(circlesOf(graphOf(facts, () => true))),
    largestValueCircle: largest(circlesOf(graphOf(facts, ({ isTypeOnly }) => !isTypeOnly))),
    injectables: sum(facts.map((file) => file.injectables)),
    moduleProviders: sum(facts.map((file) => file.moduleProviders)),
    functionParameters: largest(functions.filter((one) => !one.isConstructor).map((one) => one.parameters)),
    constructorParameters: largest(functions.filter((one) => one.isConstructor).map((one) => one.parameters)),
    oddFileNames: facts.filter(({ file }) => posix.basename(file, '.ts').replace(ROLES, '').includes('.')).length,
    ...docstringShape(parsed, publicNames),
  };
}

function factsOf(source: ts.SourceFile): FileFacts {
  const functions: FunctionFact[] = [];
  let injectables = 0;
  let moduleProviders = 0;
  const visit = (node: ts.Node): void => {
    const found = functionFact(node, source);
    if (found) functions.push(found);
    if (isInjectable(node, source)) injectables += 1;
    if (source.fileName.endsWith('.module.ts')) moduleProviders += providersListed(node, source);
    ts.forEachChild(node, visit);
  };
  visit(source);
  const imports = source.statements.flatMap((statement) => importFact(statement, source.fileName));
  return { file: source.fileName, lines: source.text.split('\n').length - 1, imports, functions, injectables, moduleProviders };
}

function functionFact(node: ts.Node, source: ts.SourceFile): FunctionFact | undefined {
  const isNamed =
    ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isConstructorDeclaration(node) || ts.isAccessor(node);
  if (!isNamed || !node.body) return undefined;
  const lineOf = (position: number): number => source.getLineAndCharacterOfPosition(position).line;
  const lines = lineOf(node.end) - lineOf(node.getStart(source)) + 1;
  return { lines, parameters: node.parameters.length, isConstructor: ts.isConstructorDeclaration(node) };
}

function isInjectable(node: ts.Node, source: ts.SourceFile): boolean {
  return ts.isClassDeclaration(node) && (ts.getDecorators(node) ?? []).some((found) => found.getText(source).startsWith('@Injectable'));
}

/** The entries of `providers: [...]` and of constants of the type `Provider[]`; what is spread in is counted where it is listed. */
function providersListed(node: ts.Node, source: ts.SourceFile): number {
  const isProperty = ts.isPropertyAssignment(node) && node.name.getText(source) === 'providers';
  const isConstant = ts.isVariableDeclaration(node) && /\bProvider\[\]$/.test(node.type?.getText(source) ?? '');
  if (!isProperty && !isConstant) return 0;
  const list = node.initializer;
  return list && ts.isArrayLiteralExpression(list) ? list.elements.filter((element) => !ts.isSpreadElement(element)).length : 0;
}

function importFact(statement: ts.Statement, file: string): ImportFact[] {
  const isImport = ts.isImportDeclaration(statement);
  const specifier = isImport || ts.isExportDeclaration(statement) ? statement.moduleSpecifier : undefined;
  if (!specifier || !ts.isStringLiteral(specifier)) return [];
  const isRelative = specifier.text.startsWith('.');
  const target = isRelative ? posix.join(posix.dirname(file), specifier.text.replace(/\.js$/, '.ts')) : undefined;
  const isTypeOnly = isImport ? importsTypesOnly(statement.importClause) : ts.isExportDeclaration(statement) && statement.isTypeOnly;
  return [{ target, isTypeOnly, isImport }];
}

function importsTypesOnly(clause: ts.ImportClause | undefined): boolean {
  if (!clause) return false;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  const names = clause.namedBindings && ts.isNamedImports(clause.namedBindings) ? clause.namedBindings.elements : [];
  return !clause.name && names.length > 0 && names.every(({ isTypeOnly }) => isTypeOnly);
}

function graphOf(facts: readonly FileFacts[], isCounted: (found: ImportFact) => boolean): Graph {
  return new Map(facts.map(({ file, imports }) => [file, new Set(imports.filter(isCounted).flatMap(({ target }) => target ?? []))]));
}

/** The files that a file imports, each once. */
function targetsOf({ imports }: FileFacts): readonly string[] {
  return [...new Set(imports.flatMap(({ target }) => target ?? []))];
}

function filesWithOneImporter(facts: readonly FileFacts[]): number {
  const importers = facts.filter(({ file }) => !/(^|\/)index\.ts$|\.module\.ts$/.test(file));
  const counts = countsOf(importers.flatMap(targetsOf));
  return facts.filter(({ file }) => counts.get(file) === 1).length;
}

function largestFolder(files: readonly string[]): number {
  return largest([...countsOf(files.map((file) => posix.dirname(file))).values()]);
}

function countsOf(values: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function largest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function percent(part: number, whole: number): number {
  return rounded((100 * part) / Math.max(1, whole));
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
