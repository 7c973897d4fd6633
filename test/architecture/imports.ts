import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import ts from 'typescript';

/**
 * One specifier as it stands in a file; the file is relative to the repository, with forward
 * slashes.
 */
export interface Import {
  readonly file: string;
  readonly specifier: string;
}

/**
 * Every specifier a source text names: static, type-only, re-exported, dynamic,
 * `import x = require()` and `require()`.
 */
export function specifiersIn(text: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const specifier = specifierNode(node);
    if (specifier && ts.isStringLiteralLike(specifier)) {
      found.push(specifier.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest));
  return found;
}

function specifierNode(node: ts.Node): ts.Node | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
    return node.moduleSpecifier;
  }
  if (ts.isImportTypeNode(node)) {
    return ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined;
  }
  if (ts.isExternalModuleReference(node)) {
    return node.expression;
  }
  return ts.isCallExpression(node) && isModuleCall(node.expression) ? node.arguments[0] : undefined;
}

function isModuleCall(callee: ts.Expression): boolean {
  return (
    callee.kind === ts.SyntaxKind.ImportKeyword ||
    (ts.isIdentifier(callee) && callee.text === 'require')
  );
}

/** The TypeScript files below a folder of the repository. */
export function filesOf(folder: string): string[] {
  return entriesOf(folder).filter((name) => /\.[cm]?tsx?$/.test(name));
}

/** The folders below a folder of the repository. */
export function foldersOf(folder: string): string[] {
  return [...new Set(entriesOf(folder).map((name) => posix.dirname(name)))];
}

function entriesOf(folder: string): string[] {
  if (!existsSync(folder)) {
    return [];
  }
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).replaceAll('\\', '/'));
}

/** What the TypeScript files below a folder import. */
export function importsOf(folder: string): Import[] {
  return filesOf(folder).flatMap((file) =>
    specifiersOf(file).map((specifier) => ({ file, specifier })),
  );
}

/** Each file is parsed once for all rules of a spec. */
const specifiersByFile = new Map<string, readonly string[]>();

function specifiersOf(file: string): readonly string[] {
  const known = specifiersByFile.get(file) ?? specifiersIn(readFileSync(file, 'utf8'));
  specifiersByFile.set(file, known);
  return known;
}

/** The place in the repository a relative specifier leads to; undefined for a package. */
export function pathOf({ file, specifier }: Import): string | undefined {
  return specifier.startsWith('.') ? posix.join(posix.dirname(file), specifier) : undefined;
}

/** The package a specifier names: undefined for relative ones and for Node's own modules. */
export function packageOf({ specifier }: Import): string | undefined {
  if (specifier.startsWith('.') || specifier.startsWith('node:')) {
    return undefined;
  }
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}
