/**
 * Rows by key, in the order in which they were added. The oldest is found at once. A `Map` looks
 * for it among the places of all that were deleted, which takes 0.1 ms with 10,000 rows.
 */
export class OrderedRows<Row> {
  private readonly places = new Map<string, Place<Row>>();
  private readonly ends = new Place<Row>('');

  get size(): number {
    return this.places.size;
  }

  get(key: string): Row | undefined {
    return this.places.get(key)?.row;
  }

  /** Sets a row. A key that is known keeps its place. */
  set(key: string, row: Row): void {
    const known = this.places.get(key);
    const place = new Place(key, row);
    place.putBefore(known?.after ?? this.ends);
    known?.takeOut();
    this.places.set(key, place);
  }

  delete(key: string): void {
    this.places.get(key)?.takeOut();
    this.places.delete(key);
  }

  /** Yields the rows, the oldest first. The row that was yielded last may be deleted meanwhile. */
  *[Symbol.iterator](): Generator<readonly [key: string, row: Row]> {
    for (let place = this.ends.after; place.row !== undefined; place = place.after)
      yield [place.key, place.row];
  }
}

/** A row between its neighbours, in a ring that begins and ends at a place without a row. */
class Place<Row> {
  before: Place<Row> = this;
  after: Place<Row> = this;

  constructor(
    readonly key: string,
    readonly row?: Row,
  ) {}

  putBefore(next: Place<Row>): void {
    this.before = next.before;
    this.after = next;
    this.before.after = this;
    next.before = this;
  }

  takeOut(): void {
    this.before.after = this.after;
    this.after.before = this.before;
  }
}
