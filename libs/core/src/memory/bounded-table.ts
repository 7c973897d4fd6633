import { OrderedRows } from './ordered-rows.js';

/**
 * Rows in memory by group and key, within a bound. A group, such as a tenant or an actor, that
 * floods the table loses its own oldest rows and takes nothing from another.
 */
export class BoundedTable<Row> {
  private readonly groups = new OrderedRows<Group<Row>>();
  private weight = 0;

  constructor(private readonly terms: TableTerms<Row> = {}) {}

  get(group: string, key: string): Row | undefined {
    const row = this.groups.get(group)?.rows.get(key);
    return row === undefined || this.isOver(row) ? undefined : row;
  }

  /** Returns the keys and rows of a group, the oldest first. */
  entries(group: string): readonly (readonly [key: string, row: Row])[] {
    const { rows } = this.groups.get(group) ?? {};
    return rows ? [...rows].filter(([, row]) => !this.isOver(row)) : [];
  }

  /** Returns the rows of a group, the oldest first. */
  values(group: string): readonly Row[] {
    return this.entries(group).map(([, row]) => row);
  }

  /** Returns the names of the groups that have rows. */
  names(): readonly string[] {
    return [...this.groups].map(([name]) => name);
  }

  /**
   * Puts a row into a group, whose oldest rows that may go are dropped until the bound holds. A row
   * that is known keeps its place, and drops none unless it weighs more than before.
   */
  put(name: string, key: string, row: Row): void {
    this.sweep(name);
    if (this.get(name, key) === undefined) this.delete(name, key);
    const group = this.groups.get(name) ?? { rows: new OrderedRows<Row>(), weight: 0 };
    if (group.rows.size === 0) this.groups.set(name, group);
    const known = group.rows.get(key);
    const more = this.weigh(row) - (known === undefined ? 0 : this.weigh(known));
    group.rows.set(key, row);
    group.weight += more;
    this.weight += more;
    if (more <= 0) return;
    this.trim(name, this.terms.most);
    this.trimAll();
  }

  /** Puts a row as the newest of its group, and its group as the newest group. */
  renew(name: string, key: string, row: Row): void {
    this.delete(name, key);
    const group = this.groups.get(name);
    this.groups.delete(name);
    if (group) this.groups.set(name, group);
    this.put(name, key, row);
  }

  delete(name: string, key: string): boolean {
    const group = this.groups.get(name);
    const row = group?.rows.get(key);
    if (!group || row === undefined) return false;
    group.weight -= this.weigh(row);
    this.weight -= this.weigh(row);
    group.rows.delete(key);
    if (group.rows.size === 0) this.groups.delete(name);
    return true;
  }

  /** Drops the oldest row that may go, if a group is full, and returns whether it has room. */
  makeRoom(name: string): boolean {
    return this.trim(name, (this.terms.most ?? Infinity) - 1);
  }

  /** Drops the oldest rows of a group that may go, and returns whether its bound holds now. */
  private trim(name: string, most = Infinity): boolean {
    const group = this.groups.get(name);
    if (!group) return true;
    while (group.weight > most) if (!this.dropOldest(name, group)) return false;
    return true;
  }

  private trimAll(): void {
    while (this.weight > (this.terms.mostInAll ?? Infinity)) {
      const largest = [...this.groups].reduce((one, other) =>
        other[1].weight > one[1].weight ? other : one,
      );
      if (!this.dropOldest(...largest)) return;
    }
  }

  private dropOldest(name: string, { rows }: Group<Row>): boolean {
    for (const [key, row] of rows)
      if (this.isOver(row) || (this.terms.mayGo?.(row) ?? true)) {
        this.drop(name, key, row);
        return true;
      }
    return false;
  }

  private drop(name: string, key: string, row: Row): void {
    this.delete(name, key);
    this.terms.dropped?.(name, key, row);
  }

  /**
   * Drops the oldest rows of a group whose time is over, and those of the oldest groups, which
   * may never be asked for again.
   */
  private sweep(name: string): void {
    if (!this.terms.isOver) return;
    this.sweepGroup(name);
    for (const [oldest, { rows }] of this.groups) {
      this.sweepGroup(oldest);
      if (rows.size > 0) return;
    }
  }

  private sweepGroup(name: string): void {
    for (const [key, row] of this.groups.get(name)?.rows ?? []) {
      if (!this.isOver(row)) return;
      this.drop(name, key, row);
    }
  }

  private isOver(row: Row): boolean {
    return this.terms.isOver?.(row) ?? false;
  }

  private weigh(row: Row): number {
    return this.terms.weigh?.(row) ?? 1;
  }
}

/** The rows that a table keeps, and those that it may drop. */
export interface TableTerms<Row> {
  /**
   * The most rows of a group, or their greatest weight together.
   *
   * @default no bound
   */
  readonly most?: number;
  /**
   * The most of all groups together. Beyond it the largest group loses its oldest row.
   *
   * @default no bound
   */
  readonly mostInAll?: number;
  /**
   * The part of a bound that a row takes.
   *
   * @default 1
   */
  weigh?(row: Row): number;
  /**
   * Tells if a row may be dropped for another one, as an open or a leased one may not.
   *
   * @default every row may
   */
  mayGo?(row: Row): boolean;
  /**
   * Tells if the time of a row is over. Then it is not found any more, and may always go.
   *
   * @default never
   */
  isOver?(row: Row): boolean;
  /** Follows a row that was dropped for another one or for its time, not one that was deleted. */
  dropped?(group: string, key: string, row: Row): void;
}

interface Group<Row> {
  readonly rows: OrderedRows<Row>;
  weight: number;
}
