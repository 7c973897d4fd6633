import ts from 'typescript';

/** The name of the global that instrumented code calls whenever a function is entered, with the file and the function. */
export const HOOK = 'toolloopFunctionEntered';

/**
 * JavaScript in which every named function (declarations, methods, constructors, accessors) reports that it is entered. Arrow functions are steps
 * of the function around them and report nothing.
 */
export function instrumented(file: string, javascript: string): string {
  const source = ts.createSourceFile(file, javascript, ts.ScriptTarget.Latest, false, ts.ScriptKind.JS);
  const insertions: { readonly at: number; readonly text: string }[] = [];
  const visit = (node: ts.Node, className: string): void => {
    const entered = enteredFunction(node, className);
    if (entered) {
      const text = ` globalThis.${HOOK}(${JSON.stringify(file)}, ${JSON.stringify(entered.name)});`;
      insertions.push({ at: entered.body.getStart(source) + 1, text });
    }
    const inside = ts.isClassLike(node) ? (node.name?.text ?? className) : className;
    ts.forEachChild(node, (child) => visit(child, inside));
  };
  visit(source, '');
  return insertions.toReversed().reduce((text, { at, text: call }) => text.slice(0, at) + call + text.slice(at), javascript);
}

function enteredFunction(node: ts.Node, className: string): { readonly name: string; readonly body: ts.Block } | undefined {
  if (ts.isFunctionDeclaration(node)) return node.body && { name: node.name?.text ?? 'default', body: node.body };
  if (ts.isConstructorDeclaration(node)) return node.body && { name: `${className}.constructor`, body: node.body };
  if (!ts.isMethodDeclaration(node) && !ts.isAccessor(node)) return undefined;
  const method = ts.isIdentifier(node.name) || ts.isPrivateIdentifier(node.name) ? node.name.text : 'computed';
  return node.body && { name: `${className}.${method}`, body: node.body };
}
