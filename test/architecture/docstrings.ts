import ts from 'typescript';
import { riddlesIn } from './words.js';

/** How the documentation of a library is written. */
export interface DocstringShape {
  /** Docstrings that begin with What, Whether, Of, … instead of a noun phrase or a verb. */
  readonly ellipticDocstrings: number;
  /**
   * Exported functions and public methods of exported classes that throw and do not say so by
   * `@throws`.
   */
  readonly throwsWithoutTag: number;
  /** Decorators, public methods of services, and ports that are exported and have no `@example`. */
  readonly withoutExample: number;
  /** Riddles in sources: in names, comments and messages alike. */
  readonly riddles: number;
}

interface Documented {
  readonly node: ts.Node;
  readonly docs: string;
}

/** Openings of a sentence without subject or verb. */
const ELLIPTIC = /^\/\*\*[\s*]*(What|Whether|Of|Where|Which|Who|How|To be|By|For whom|With what)\b/;

export function docstringShape(
  sources: readonly ts.SourceFile[],
  publicNames: ReadonlySet<string>,
): DocstringShape {
  const docstrings = sources.flatMap(({ text }) => text.match(/\/\*\*[\s\S]*?\*\//g) ?? []);
  const declared = sources.flatMap((source) =>
    source.statements.filter((statement) => isPublic(statement, publicNames)),
  );
  const throwing = declared.flatMap(callablesOf).filter(({ node }) => throws(node));
  const shown = declared.flatMap(needsExample);
  return {
    ellipticDocstrings: docstrings.filter((docstring) => ELLIPTIC.test(docstring)).length,
    throwsWithoutTag: throwing.filter(({ docs }) => !docs.includes('@throws')).length,
    withoutExample: shown.filter(({ docs }) => !docs.includes('@example')).length,
    riddles: sources.reduce((count, { text }) => count + riddlesIn(text).length, 0),
  };
}

function isPublic(statement: ts.Statement, publicNames: ReadonlySet<string>): boolean {
  return (
    namesOf(statement).some((name) => publicNames.has(name)) &&
    hasModifier(statement, ts.SyntaxKind.ExportKeyword)
  );
}

function namesOf(statement: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  return (ts.isClassDeclaration(statement) || ts.isFunctionDeclaration(statement)) && statement.name
    ? [statement.name.text]
    : [];
}

function callablesOf(statement: ts.Statement): Documented[] {
  if (ts.isClassDeclaration(statement)) return publicMethodsOf(statement);
  return ts.isFunctionDeclaration(statement) ? [documented(statement)] : [];
}

function needsExample(statement: ts.Statement): Documented[] {
  if (statement.getSourceFile().fileName.endsWith('.decorator.ts')) return [documented(statement)];
  if (!ts.isClassDeclaration(statement)) return [];
  if (hasModifier(statement, ts.SyntaxKind.AbstractKeyword)) return [documented(statement)];
  return statement.name?.text.endsWith('Service') ? publicMethodsOf(statement) : [];
}

function publicMethodsOf(declared: ts.ClassDeclaration): Documented[] {
  const methods = declared.members.filter((member) => ts.isMethodDeclaration(member));
  const hidden = [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword];
  return methods
    .filter(
      (method) => !hidden.some((modifier) => hasModifier(method, modifier)) && !isNestHook(method),
    )
    .map(documented);
}

/** Nest calls these, and nobody reads their documentation. */
function isNestHook(method: ts.MethodDeclaration): boolean {
  return /^(onModule|onApplication|beforeApplication)/.test(method.name.getText());
}

function documented(node: ts.Node): Documented {
  const comments = ts.getJSDocCommentsAndTags(node).filter((found) => ts.isJSDoc(found));
  return { node, docs: comments.map((comment) => comment.getText()).join('\n') };
}

/** A `throw` of its own, not one within a function inside of it. */
function throws(node: ts.Node): boolean {
  return (
    ts.forEachChild(
      node,
      (child) => ts.isThrowStatement(child) || (!ts.isFunctionLike(child) && throws(child)),
    ) === true
  );
}

function hasModifier(node: ts.Node, kind: ts.SyntaxKind): boolean {
  return (
    ts.canHaveModifiers(node) &&
    ts.getModifiers(node)?.some((modifier) => modifier.kind === kind) === true
  );
}
