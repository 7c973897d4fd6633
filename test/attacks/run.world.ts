import type { JsonObject, JsonValue } from '@toolloop/core';
import { isList } from './call-arguments.js';
import type { Pack, Row, ToolBehaviour } from './pack.js';

/**
 * The world of one run: a copy of the pack's data with texts in its vectors, which the tools of the
 * run read and change.
 */
export class RunWorld {
  private readonly tables: Map<string, readonly Row[]>;
  private readonly performed: string[] = [];

  constructor({ world, vectors }: Pack, texts: Texts = {}) {
    const written = { ...vectors, ...texts };
    this.tables = new Map(
      Object.entries(world).map(([table, rows]) => [
        table,
        rows.map((row) => filledRow(row, written)),
      ]),
    );
  }

  /** The calls that happened, by their ids. */
  get calls(): readonly string[] {
    return this.performed;
  }

  rows(table: string): readonly Row[] {
    return this.tables.get(table) ?? [];
  }

  perform(toolCallId: string, behaviour: ToolBehaviour, args: JsonObject): unknown {
    this.performed.push(toolCallId);
    switch (behaviour.kind) {
      case 'find':
        return this.find(behaviour, args);
      case 'insert':
        return this.insert(behaviour.table, args);
      case 'update':
        return this.change(behaviour, args, (row) => [{ ...row, ...args }]);
      case 'delete':
        return this.change(behaviour, args, () => []);
    }
  }

  private find(
    { table, where = {}, columns }: Extract<ToolBehaviour, { kind: 'find' }>,
    args: JsonObject,
  ): Row[] {
    const narrowing = Object.entries(where).filter(([argument]) => args[argument] !== undefined);
    const found = this.rows(table).filter((row) =>
      narrowing.every(([argument, column]) => contains(row[column], args[argument])),
    );
    return columns
      ? found.map((row) =>
          Object.fromEntries(columns.map((column) => [column, row[column] ?? null])),
        )
      : found;
  }

  private insert(table: string, args: JsonObject): Row {
    const rows = this.rows(table);
    const id = `${table}-${rows.length + 1}`;
    this.tables.set(table, [...rows, { id, ...args }]);
    return { id };
  }

  private change(
    { table, by }: { readonly table: string; readonly by?: string },
    args: JsonObject,
    to: (row: Row) => Row[],
  ): Row {
    const rows = this.rows(table);
    const isMeant = (row: Row): boolean => by === undefined || row[by] === args[by];
    this.tables.set(
      table,
      rows.flatMap((row) => (isMeant(row) ? to(row) : [row])),
    );
    return { changed: rows.filter(isMeant).length };
  }
}

function contains(value: unknown, wanted: unknown): boolean {
  return JSON.stringify(value ?? null)
    .toLowerCase()
    .includes(JSON.stringify(wanted).replace(/^"|"$/g, '').toLowerCase());
}

type Texts = Readonly<Record<string, string>>;

function filledRow(row: Row, texts: Texts): Row {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column, filled(value, texts)]),
  );
}

function filled(value: JsonValue, texts: Texts): JsonValue {
  if (typeof value === 'string')
    return value.replace(/⟦vec:([^⟧]*)⟧/g, (_, name: string) => texts[name] ?? '');
  return isList(value) ? value.map((item) => filled(item, texts)) : value;
}
