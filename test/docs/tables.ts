import { readFileSync } from 'node:fs';
import ts from 'typescript';

/** A row that a type asks for: what stands in its first columns. The last column is what people have written about it. */
type Row = readonly string[];

/** The table of a page behind a marker, whose first columns are made of a type: `<!-- table: LoopEventBody -->`. */
export interface TypeTable {
  readonly page: string;
  readonly marker: string;
  readonly head: Row;
  rows(): readonly Row[];
}

const EVENTS = 'libs/protocol/src/loop-event.ts';
const RESULT = 'libs/protocol/src/loop-result.ts';
const ERRORS = 'docs/reference/errors.md';

export const TABLES: readonly TypeTable[] = [
  { page: 'docs/reference/events.md', marker: 'LoopEventBody', head: ['event', 'fields'], rows: () => eventRows() },
  codes('ToolErrorCode', RESULT),
  codes('RunFailure', RESULT),
  codes('InvalidRequestError', 'libs/protocol/src/errors.ts'),
  codes('ModelErrorCode', 'libs/protocol/src/errors.ts'),
  codes('PendingError', 'libs/core/src/pending/pending-reply.ts'),
  codes('DirectiveErrorCode', 'libs/core/src/directives/directive.service.ts'),
  codes('PolicyError', 'libs/core/src/runs/policy.service.ts'),
  codes('WarningCode', EVENTS),
];

/** A page with the rows that its type has now; what was written about a row stays beside it. */
export function withTable(page: string, { marker, head, rows }: TypeTable): string {
  const block = new RegExp(`<!-- table: ${marker} -->[^]*?<!-- /table -->`);
  const written = new Map(
    [...(block.exec(page)?.[0] ?? '').matchAll(/^\| (`[^`]+`) \|(?:.*\|)? (.*) \|$/gm)].map(([, key = '', text = '']) => [
      key,
      text.trim(),
    ]),
  );
  const lines = rows().map((row) => `| ${row.join(' | ')} | ${written.get(row[0] ?? '') ?? ''} |`);
  const all = ['<!-- prettier-ignore -->', `| ${head.join(' | ')} | when |`, `| ${head.map(() => '---').join(' | ')} | --- |`, ...lines];
  return page.replace(block, () => `<!-- table: ${marker} -->\n\n${all.join('\n')}\n\n<!-- /table -->`);
}

function codes(type: string, file: string): TypeTable {
  return { page: ERRORS, marker: type, head: ['code'], rows: () => codesOf(type, file).map((code) => [`\`${code}\``]) };
}

/** The words of a union that a type is, or that its member `code` has. */
function codesOf(type: string, file: string): string[] {
  const source = sourceOf(file);
  const declaration = source.statements.find((one) => 'name' in one && (one.name as ts.Node | undefined)?.getText(source) === type);
  if (!declaration) throw new Error(`${file} declares no ${type}.`);
  const found = ts.isTypeAliasDeclaration(declaration) ? declaration.type : codeIn(declaration, source);
  return found ? literalsIn(found) : [];
}

function codeIn(node: ts.Node, source: ts.SourceFile): ts.TypeNode | undefined {
  if ((ts.isPropertySignature(node) || ts.isParameter(node)) && node.name.getText(source) === 'code') return node.type;
  return ts.forEachChild(node, (child) => codeIn(child, source));
}

function literalsIn(type: ts.TypeNode): string[] {
  const parts = ts.isUnionTypeNode(type) ? type.types : [type];
  return parts.flatMap((part) => (ts.isLiteralTypeNode(part) && ts.isStringLiteral(part.literal) ? [part.literal.text] : []));
}

/** One row for each type of event, with its fields; `?` where a field may be absent. */
function eventRows(): Row[] {
  const source = sourceOf(EVENTS);
  const body = source.statements.find((one) => ts.isTypeAliasDeclaration(one) && one.name.text === 'LoopEventBody');
  if (!body || !ts.isTypeAliasDeclaration(body) || !ts.isUnionTypeNode(body.type)) throw new Error('LoopEventBody is no union.');
  const events = new Map<string, Set<string>>();
  for (const member of body.type.types.filter(ts.isTypeLiteralNode)) {
    const fields = member.members.filter(ts.isPropertySignature);
    const type = fields.find(({ name }) => name.getText(source) === 'type')?.type;
    const [name = ''] = type ? literalsIn(type) : [];
    const known = events.get(name) ?? new Set();
    for (const field of fields) known.add(field.name.getText(source) + (field.questionToken ? '?' : ''));
    events.set(name, known);
  }
  return [...events].map(([name, fields]) => [
    `\`${name}\``,
    [...fields]
      .filter((field) => field !== 'type')
      .map((field) => `\`${field}\``)
      .join(' '),
  ]);
}

function sourceOf(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
}
