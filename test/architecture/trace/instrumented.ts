import ts from 'typescript';

/**
 * The name of the global that instrumented code calls whenever a function is entered, with the file
 * and the function.
 */
export const HOOK = 'toolloopFunctionEntered';

/**
 * JavaScript in which every named function (declarations, methods, constructors, accessors) reports
 * that it is entered. Arrow functions are steps of the function around them and report nothing.
 */
export function instrumented(file: string, javascript: string): string {
  const source = ts.createSourceFile(
    file,
    javascript,
    ts.ScriptTarget.Latest,
    true,
    ts.ScriptKind.JS,
  );
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
  return insertions
    .toReversed()
    .reduce((text, { at, text: call }) => text.slice(0, at) + call + text.slice(at), javascript);
}

function enteredFunction(
  node: ts.Node,
  className: string,
): { readonly name: string; readonly body: ts.Block } | undefined {
  if (!isNamedFunction(node) || !node.body) return undefined;
  if (ts.isFunctionDeclaration(node))
    return { name: node.name?.text ?? 'default', body: node.body };
  return { name: `${className}.${node.name?.getText() ?? 'constructor'}`, body: node.body };
}

function isNamedFunction(
  node: ts.Node,
): node is
  | ts.FunctionDeclaration
  | ts.MethodDeclaration
  | ts.ConstructorDeclaration
  | ts.AccessorDeclaration {
  return (
    ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isConstructorDeclaration(node) ||
    ts.isAccessor(node)
  );
}
