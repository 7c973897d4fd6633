import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { filesOf } from './imports.js';

/** A finding as a source has it, with … where it puts in what it has found. */
export interface WrittenFinding {
  readonly file: string;
  readonly problem: string;
  readonly remedy: string;
}

/**
 * Every finding that the sources of the libraries can report at start, as far as its words stand
 * there.
 */
export function writtenFindings(): WrittenFinding[] {
  const files = filesOf('libs').filter(
    (file) => /^libs\/[^/]+\/src\//.test(file) && !/\/page\//.test(file),
  );
  return files.flatMap((file) => {
    const text = readFileSync(file, 'utf8');
    if (!text.includes('problem')) return [];
    return new FindingReader(file, text).read();
  });
}

class FindingReader {
  private readonly source: ts.SourceFile;
  private readonly constants = new Map<string, ts.Expression>();
  /** Functions that take a problem: at which place, and at which the remedy. */
  private readonly makers = new Map<
    string,
    { readonly problem: number; readonly remedy: number }
  >();
  private readonly found: WrittenFinding[] = [];

  constructor(
    private readonly file: string,
    text: string,
  ) {
    this.source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  }

  read(): WrittenFinding[] {
    this.walk(this.source, (node) => this.note(node));
    this.walk(this.source, (node) => this.collect(node));
    return this.found;
  }

  private walk(node: ts.Node, visit: (node: ts.Node) => void): void {
    visit(node);
    ts.forEachChild(node, (child) => this.walk(child, visit));
  }

  private note(node: ts.Node): void {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.initializer) {
      this.constants.set(node.name.text, node.initializer);
      if (ts.isArrowFunction(node.initializer)) this.noteMaker(node.name.text, node.initializer);
    }
    if (ts.isFunctionDeclaration(node) && node.name) this.noteMaker(node.name.text, node);
  }

  private noteMaker(name: string, { parameters }: ts.SignatureDeclaration): void {
    const places = parameters.map((parameter) => parameter.name.getText());
    if (places.includes('problem'))
      this.makers.set(name, {
        problem: places.indexOf('problem'),
        remedy: places.indexOf('remedy'),
      });
  }

  private collect(node: ts.Node): void {
    if (ts.isObjectLiteralExpression(node))
      this.add(propertyOf(node, 'problem'), propertyOf(node, 'remedy'));
    if (!ts.isCallExpression(node) || !ts.isIdentifier(node.expression)) return;
    const maker = this.makers.get(node.expression.text);
    if (maker) this.add(node.arguments[maker.problem], node.arguments[maker.remedy]);
  }

  private add(problem: ts.Expression | undefined, remedy: ts.Expression | undefined): void {
    const [said = ''] = remedy ? this.textsOf(remedy) : [];
    for (const text of problem ? this.textsOf(problem) : []) {
      if (/\w{3}/.test(text))
        this.found.push({ file: this.file, problem: text, remedy: said === '…' ? '' : said });
    }
  }

  /** The texts that an expression may be: both of a condition. */
  private textsOf(node: ts.Expression, depth = 0): string[] {
    if (ts.isStringLiteralLike(node)) return [node.text];
    if (ts.isTemplateExpression(node))
      return [
        node.head.text + node.templateSpans.map(({ literal }) => `…${literal.text}`).join(''),
      ];
    if (ts.isBinaryExpression(node)) return this.textsOfPair(node, depth);
    const named = ts.isIdentifier(node) && depth < 2 ? this.constants.get(node.text) : undefined;
    return named
      ? this.textsOf(named, depth + 1)
      : partsOf(node).flatMap((part) => this.textsOf(part, depth));
  }

  private textsOfPair(
    { left, operatorToken, right }: ts.BinaryExpression,
    depth: number,
  ): string[] {
    const [before, after] = [this.textsOf(left, depth), this.textsOf(right, depth)];
    if (operatorToken.kind !== ts.SyntaxKind.PlusToken) return [...before, ...after];
    return (before.length > 0 ? before : ['…']).flatMap((one) =>
      (after.length > 0 ? after : ['…']).map((other) => one + other),
    );
  }
}

/** The expressions of which one is the value of another. */
function partsOf(node: ts.Expression): ts.Expression[] {
  if (ts.isConditionalExpression(node)) return [node.whenTrue, node.whenFalse];
  if (ts.isParenthesizedExpression(node) || ts.isAsExpression(node)) return [node.expression];
  return ts.isArrowFunction(node) && !ts.isBlock(node.body) ? [node.body] : [];
}

function propertyOf(
  { properties }: ts.ObjectLiteralExpression,
  name: string,
): ts.Expression | undefined {
  for (const property of properties) {
    if (ts.isPropertyAssignment(property) && property.name.getText() === name)
      return property.initializer;
    if (ts.isShorthandPropertyAssignment(property) && property.name.text === name)
      return property.name;
  }
  return undefined;
}
