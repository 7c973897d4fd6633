import { isRecord } from '@toolloop/protocol';
import type { EntityManager, EntityMetadata } from 'typeorm';
import { ResourceWriteError } from '../resource-write-error.js';

/** Keeps the place of a new row in the tree of its entity, which TypeORM does in `save()` alone. */
export async function placeInTree(
  manager: EntityManager,
  metadata: EntityMetadata,
  row: object,
): Promise<void> {
  const { treeType, treeParentRelation } = metadata;
  const parent: unknown = treeParentRelation && Reflect.get(row, treeParentRelation.propertyName);
  const tree = new Tree(manager, metadata);
  if (treeType === 'closure-table') await tree.attach(row, parent);
  if (treeType === 'materialized-path') await tree.writePath(row, parent);
}

type ColumnMetadata = EntityMetadata['columns'][number];

/** The values of a row that are changed. */
interface RowChange {
  readonly row: object;
  readonly values: ReadonlyMap<string, unknown>;
}

/** Keeps the place of a row, and of the rows below it, where its parent has changed. */
export async function moveInTree(
  manager: EntityManager,
  metadata: EntityMetadata,
  { row, values }: RowChange,
): Promise<void> {
  const { treeType, treeParentRelation } = metadata;
  if (!treeParentRelation || !values.has(treeParentRelation.propertyName)) return;
  const parent = values.get(treeParentRelation.propertyName);
  const tree = new Tree(manager, metadata);
  if (treeType === 'closure-table') await tree.move(row, parent);
  if (treeType === 'materialized-path') await tree.movePath(row, parent);
}

/**
 * The places of rows in one tree, written by SQL. Row level security holds for it as for every
 * statement.
 */
class Tree {
  private readonly keys: readonly ColumnMetadata[];

  constructor(
    private readonly manager: EntityManager,
    private readonly metadata: EntityMetadata,
  ) {
    this.keys = metadata.primaryColumns;
  }

  /** Writes that a row is below itself, and below all that its parent is below. */
  async attach(row: object, parent: unknown): Promise<void> {
    const { table, ancestor, descendant } = this.closure;
    const own = this.keyOf(row);
    const columns = [...ancestor, ...descendant].join(', ');
    await this.run(`insert into ${table} (${columns}) values (${marks(own.length * 2)})`, [
      ...own,
      ...own,
    ]);
    if (parent === null || parent === undefined) return;
    const below = this.keyOf(parent);
    await this.run(
      `insert into ${table} (${columns}) select ${ancestor.join(', ')}, ${marks(own.length)} from ${table} where ${equal(descendant)}`,
      [...own, ...below],
    );
  }

  /**
   * Takes a row, and all below it, from under the rows above it, and puts them below its new
   * parent.
   *
   * @throws {ResourceWriteError} Where that is below the row itself.
   */
  async move(row: object, parent: unknown): Promise<void> {
    const { table, ancestor, descendant } = this.closure;
    const own = this.keyOf(row);
    const under = `select ${descendant.join(', ')} from (select * from ${table}) below where ${equal(ancestor)}`;
    const above = parent === null || parent === undefined ? undefined : this.keyOf(parent);
    if (above) {
      const circles = await this.run(
        `select 1 from ${table} where ${equal(ancestor)} and ${equal(descendant)}`,
        [...own, ...above],
      );
      if (circles.length > 0) throw this.circle();
    }
    await this.run(
      `delete from ${table} where (${descendant.join(', ')}) in (${under}) and (${ancestor.join(', ')}) not in (${under})`,
      [...own, ...own],
    );
    if (!above) return;
    const taken = [
      ...ancestor.map((name) => `above.${name}`),
      ...descendant.map((name) => `below.${name}`),
    ].join(', ');
    await this.run(
      `insert into ${table} (${[...ancestor, ...descendant].join(', ')}) select ${taken} from ${table} above, ${table} below
       where ${equal(descendant.map((name) => `above.${name}`))} and ${equal(ancestor.map((name) => `below.${name}`))}`,
      [...above, ...own],
    );
  }

  /** Writes the path of a new row: that of its parent, and its own key. */
  async writePath(row: object, parent: unknown): Promise<void> {
    const { table, path } = this;
    await this.run(`update ${table} set ${path} = ? where ${equal(this.keyNames)}`, [
      `${await this.pathOf(parent)}${this.stepOf(row)}`,
      ...this.keyOf(row),
    ]);
  }

  /**
   * Writes the path of a row, and those of all below it, anew.
   *
   * @throws {ResourceWriteError} Where its new parent is below the row itself.
   */
  async movePath(row: object, parent: unknown): Promise<void> {
    const { table, path } = this;
    const [before, above] = [await this.pathOf(row), await this.pathOf(parent)];
    if (above.startsWith(before)) throw this.circle();
    await this.run(
      `update ${table} set ${path} = concat(substr(?, 1), substr(${path}, ${before.length + 1})) where substr(${path}, 1, ${before.length}) = ?`,
      [`${above}${this.stepOf(row)}`, before],
    );
  }

  private get closure(): {
    readonly table: string;
    readonly ancestor: readonly string[];
    readonly descendant: readonly string[];
  } {
    const { tablePath, ancestorColumns, descendantColumns } = this.metadata.closureJunctionTable;
    const named = (columns: readonly ColumnMetadata[]): readonly string[] =>
      columns.map(({ databaseName }) => this.quoted(databaseName));
    return {
      table: this.pathed(tablePath),
      ancestor: named(ancestorColumns),
      descendant: named(descendantColumns),
    };
  }

  private get table(): string {
    return this.pathed(this.metadata.tablePath);
  }

  private get path(): string {
    return this.quoted(this.metadata.materializedPathColumn?.databaseName ?? '');
  }

  private get keyNames(): readonly string[] {
    return this.keys.map(({ databaseName }) => this.quoted(databaseName));
  }

  /** The end of a path, as TypeORM has it. */
  private stepOf(row: object): string {
    const { joinColumns = [] } = this.metadata.treeParentRelation ?? {};
    return `${joinColumns.map(({ referencedColumn }) => String(referencedColumn?.getEntityValue(row))).join('_')}.`;
  }

  private async pathOf(row: unknown): Promise<string> {
    if (row === null || row === undefined) return '';
    const [found] = await this.run(
      `select ${this.path} as path from ${this.table} where ${equal(this.keyNames)}`,
      this.keyOf(row),
    );
    return typeof found?.['path'] === 'string' ? found['path'] : '';
  }

  /** The key of a row, which may be given by itself. */
  private keyOf(row: unknown): readonly unknown[] {
    return typeof row === 'object' && row !== null
      ? this.keys.map((column): unknown => column.getEntityValue(row))
      : [row];
  }

  private circle(): ResourceWriteError {
    return new ResourceWriteError(
      'check',
      this.metadata.treeParentRelation?.propertyName ?? '',
      {},
    );
  }

  private async run(
    sql: string,
    values: readonly unknown[],
  ): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const { driver } = this.manager.dataSource;
    let count = -1;
    const marked = sql.replaceAll('?', () => driver.createParameter('value', (count += 1)));
    const found = await this.manager.query<unknown>(marked, [...values]);
    return Array.isArray(found) ? found.filter(isRecord) : [];
  }

  private pathed(path: string): string {
    return path
      .split('.')
      .map((part) => this.quoted(part))
      .join('.');
  }

  private quoted(name: string): string {
    return this.manager.dataSource.driver.escape(name);
  }
}

function marks(count: number): string {
  return Array.from({ length: count }, () => '?').join(', ');
}

function equal(columns: readonly string[]): string {
  return columns.map((column) => `${column} = ?`).join(' and ');
}
