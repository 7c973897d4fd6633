import { readFileSync } from 'node:fs';
import { DEFAULT_LIMITS } from '@toolloop/core';
import ts from 'typescript';
import { lastCellsIn } from './table-cells.js';

/**
 * A row that a type asks for: what stands in its first columns. The last column is what people have
 * written about it.
 */
type Row = readonly string[];

/**
 * The table of a page behind a marker, whose first columns are made of a type:
 * `<!-- table: LoopEventBody -->`.
 */
export interface TypeTable {
  readonly page: string;
  readonly marker: string;
  readonly head: Row;
  readonly rows: () => readonly Row[];
}

const EVENTS = 'libs/protocol/src/loop-event.ts';
const RESULT = 'libs/protocol/src/loop-result.ts';
const ERRORS = 'docs/reference/errors.md';

export const TABLES: readonly TypeTable[] = [
  {
    page: 'docs/reference/events.md',
    marker: 'LoopEventBody',
    head: ['event', 'fields'],
    rows: () => eventRows(),
  },
  {
    page: 'docs/reference/limits.md',
    marker: 'Limits',
    head: ['limit', 'default'],
    rows: limitRows,
  },
  codes('ToolErrorCode', RESULT),
  codes('RunFailure', RESULT),
  codes('InvalidRequestError', 'libs/protocol/src/errors.ts'),
  codes('ModelErrorCode', 'libs/protocol/src/errors.ts'),
  codes('PendingError', 'libs/core/src/plugins/inbox/pending-error.ts'),
  codes('DirectiveErrorCode', 'libs/core/src/plugins/directives/directive-error.ts'),
  codes('PolicyError', 'libs/core/src/plugins/operators/policy.service.ts'),
  codes('WarningCode', EVENTS),
];

/** A page with the rows that its type has now; what was written about a row stays beside it. */
export function withTable(page: string, { marker, head, rows }: TypeTable): string {
  const block = new RegExp(`<!-- table: ${marker} -->[^]*?<!-- /table -->`);
  const written = lastCellsIn(block.exec(page)?.[0] ?? '');
  const lines = rows().map((row) => `| ${row.join(' | ')} | ${written.get(row[0] ?? '') ?? ''} |`);
  const all = [
    '<!-- prettier-ignore -->',
    `| ${head.join(' | ')} | ${marker === 'Limits' ? 'of what' : 'when'} |`,
    `| ${head.map(() => '---').join(' | ')} | --- |`,
    ...lines,
  ];
  return page.replace(
    block,
    () => `<!-- table: ${marker} -->\n\n${all.join('\n')}\n\n<!-- /table -->`,
  );
}

/** The limits of a run with their defaults. */
function limitRows(): Row[] {
  return Object.entries<number>({ ...DEFAULT_LIMITS }).map(([name, most]) => [
    `\`${name}\``,
    Number.isFinite(most) ? most.toLocaleString('en') : 'none',
  ]);
}

function codes(type: string, file: string): TypeTable {
  return {
    page: ERRORS,
    marker: type,
    head: ['code'],
    rows: () => codesOf(type, file).map((code) => [`\`${code}\``]),
  };
}

/** The words of a union that a type is, or that its member `code` has. */
function codesOf(type: string, file: string): string[] {
  const source = sourceOf(file);
  const declaration = source.statements.find(
    (one) => 'name' in one && (one.name as ts.Node | undefined)?.getText(source) === type,
  );
  if (!declaration) throw new Error(`${file} declares no ${type}.`);
  const found = ts.isTypeAliasDeclaration(declaration)
    ? declaration.type
    : codeIn(declaration, source);
  return found ? literalsIn(found) : [];
}

function codeIn(node: ts.Node, source: ts.SourceFile): ts.TypeNode | undefined {
  if (
    (ts.isPropertySignature(node) || ts.isParameter(node)) &&
    node.name.getText(source) === 'code'
  )
    return node.type;
  return ts.forEachChild(node, (child) => codeIn(child, source));
}

function literalsIn(type: ts.TypeNode): string[] {
  const parts = ts.isUnionTypeNode(type) ? type.types : [type];
  return parts.flatMap((part) =>
    ts.isLiteralTypeNode(part) && ts.isStringLiteral(part.literal) ? [part.literal.text] : [],
  );
}

/** One row for each type of event, with its fields; `?` where a field may be absent. */
function eventRows(): Row[] {
  const events = new Map<string, Set<string>>();
  for (const { name, fields } of eventMembers(sourceOf(EVENTS)))
    events.set(name, new Set([...(events.get(name) ?? []), ...fields]));
  return [...events].map(([name, fields]) => [
    `\`${name}\``,
    [...fields].map((field) => `\`${field}\``).join(' '),
  ]);
}

/** The members of the union of events: one type may have several. */
function eventMembers(
  source: ts.SourceFile,
): { readonly name: string; readonly fields: readonly string[] }[] {
  const body = source.statements
    .filter(ts.isTypeAliasDeclaration)
    .find(({ name }) => name.text === 'LoopEventBody')?.type;
  if (!body || !ts.isUnionTypeNode(body)) throw new Error('LoopEventBody is no union.');
  return body.types.filter(ts.isTypeLiteralNode).map(({ members }) => {
    const fields = members
      .filter(ts.isPropertySignature)
      .map((field) => ({ field, name: field.name.getText(source) }));
    const type = fields.find(({ name }) => name === 'type')?.field.type;
    const others = fields.filter(({ name }) => name !== 'type');
    return {
      name: type ? literalsIn(type).join('') : '',
      fields: others.map(({ field, name }) => name + (field.questionToken ? '?' : '')),
    };
  });
}

function sourceOf(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
}
