import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { BoundedTable } from '../../src/memory/bounded-table.js';
import { OrderedRows } from '../../src/memory/ordered-rows.js';

interface Row {
  readonly id: number;
  readonly isHeld: boolean;
}

/** A change of a table; an id that grows is added to the row. */
interface Put {
  readonly group: string;
  readonly key: string;
  readonly isHeld: boolean;
  readonly way: 'put' | 'renew' | 'delete';
}

const MOST = 4;
const puts = fc.array(
  fc.record<Put>({
    group: fc.constantFrom('acme', 'globex'),
    key: fc.constantFrom(...'a b c d e f g h'.split(' ')),
    isHeld: fc.boolean(),
    way: fc.constantFrom('put', 'put', 'renew', 'delete'),
  }),
  { maxLength: 60 },
);

function tableOf(dropped: (group: string, key: string, row: Row) => void = () => undefined) {
  return new BoundedTable<Row>({ most: MOST, mayGo: ({ isHeld }) => !isHeld, dropped });
}

function apply(table: BoundedTable<Row>, all: readonly Put[]): void {
  for (const [id, { group, key, isHeld, way }] of all.entries())
    if (way === 'delete') table.delete(group, key);
    else table[way](group, key, { id, isHeld });
}

/** The same rows by the plainest means: an array that is looked through from its beginning. */
function expected(all: readonly Put[], of: string): readonly (readonly [string, Row])[] {
  let rows: readonly (readonly [string, Row])[] = [];
  for (const [id, { group, key, isHeld, way }] of all.entries()) {
    if (group !== of) continue;
    const at = rows.findIndex(([known]) => known === key);
    const row = [key, { id, isHeld }] as const;
    const without = rows.filter(([known]) => known !== key);
    if (way === 'delete') rows = without;
    else rows = way === 'put' && at >= 0 ? rows.with(at, row) : [...without, row];
    if (way === 'put' && at >= 0) continue;
    while (rows.length > MOST) {
      const oldest = rows.findIndex(([, { isHeld: mayNotGo }]) => !mayNotGo);
      if (oldest < 0) break;
      rows = rows.toSpliced(oldest, 1);
    }
  }
  return rows;
}

describe('OrderedRows', () => {
  it('yields the rows in the order in which their keys were first set', () => {
    const changes = fc.array(
      fc.tuple(fc.constantFrom(...'a b c d'.split(' ')), fc.option(fc.nat())),
    );
    fc.assert(
      fc.property(changes, (all) => {
        const rows = new OrderedRows<number>();
        const known = new Map<string, number>();
        for (const [key, row] of all) {
          if (row === null) [rows, known].forEach((each) => each.delete(key));
          else [rows, known].forEach((each) => each.set(key, row));
        }
        expect([...rows]).toEqual([...known]);
        expect([rows.size, rows.get('a')]).toEqual([known.size, known.get('a')]);
      }),
    );
  });

  it('reads the rows behind one that is deleted meanwhile', () => {
    const rows = new OrderedRows<number>();
    for (const [index, key] of 'a b c'.split(' ').entries()) rows.set(key, index);
    const read: string[] = [];
    for (const [key] of rows) {
      read.push(key);
      rows.delete(key);
    }
    expect([read, [...rows]]).toEqual([['a', 'b', 'c'], []]);
  });
});

describe('BoundedTable', () => {
  it('holds no more rows of a group than its bound when one is added, unless all are held', () => {
    fc.assert(
      fc.property(puts, fc.boolean(), (all, isHeld) => {
        const table = tableOf();
        apply(table, [...all, { group: 'acme', key: 'new', isHeld, way: 'put' }]);
        const rows = table.values('acme');
        expect(rows.length <= MOST || rows.every((row) => row.isHeld)).toBe(true);
      }),
    );
  });

  it('drops no row that is held', () => {
    fc.assert(
      fc.property(puts, (all) => {
        const dropped: boolean[] = [];
        apply(
          tableOf((_group, _key, { isHeld }) => dropped.push(isHeld)),
          all,
        );
        expect(dropped).not.toContain(true);
      }),
    );
  });

  it('drops the oldest row that may go, of the group that is full and of no other', () => {
    fc.assert(
      fc.property(puts, (all) => {
        const table = tableOf();
        apply(table, all);
        for (const group of ['acme', 'globex'])
          expect(table.entries(group)).toEqual(expected(all, group));
      }),
    );
  });

  it('names each row that it drops once, and none that was deleted', () => {
    const dropped: string[] = [];
    const table = tableOf((group, key) => dropped.push(`${group} ${key}`));
    for (const key of 'abcdef') table.put('acme', key, { id: 0, isHeld: false });
    table.delete('acme', 'c');
    expect(dropped).toEqual(['acme a', 'acme b']);
  });

  it('makes room for one more by dropping the oldest that may go, and says if there is none', () => {
    const table = tableOf();
    for (const key of 'abcd') table.put('acme', key, { id: 0, isHeld: key !== 'c' });
    expect([table.makeRoom('acme'), table.get('acme', 'c')]).toEqual([true, undefined]);
    table.put('acme', 'e', { id: 0, isHeld: true });
    expect([table.makeRoom('acme'), table.makeRoom('globex')]).toEqual([false, true]);
    expect(table.entries('acme').map(([key]) => key)).toEqual(['a', 'b', 'd', 'e']);
  });

  it('bounds the weight of rows where they have one', () => {
    const table = new BoundedTable<number>({ most: 10, weigh: (row) => row });
    for (const [key, row] of [5, 4, 3, 2].entries()) table.put('acme', `${key}`, row);
    expect(table.values('acme')).toEqual([4, 3, 2]);
    table.put('acme', '1', 1);
    table.put('acme', '4', 4);
    expect(table.values('acme')).toEqual([1, 3, 2, 4]);
    table.put('acme', '5', 11);
    expect(table.values('acme')).toEqual([]);
  });

  it('takes from the largest group beyond the bound of all', () => {
    const table = new BoundedTable<number>({ most: 3, mostInAll: 5 });
    for (const [index, group] of 'a a a b b c'.split(' ').entries())
      table.put(group, `${index}`, index);
    expect('a b c'.split(' ').map((group) => table.values(group))).toEqual([[1, 2], [3, 4], [5]]);
  });

  it('finds no row whose time is over, and drops it when it is the oldest', () => {
    let now = 0;
    const dropped: string[] = [];
    const table = new BoundedTable<number>({
      isOver: (until) => until <= now,
      dropped: (group, key) => dropped.push(`${group} ${key}`),
    });
    table.put('acme', 'a', 10);
    table.put('acme', 'b', 20);
    table.put('globex', 'c', 10);
    now = 10;
    expect([table.get('acme', 'a'), table.values('acme'), table.values('globex')]).toEqual([
      undefined,
      [20],
      [],
    ]);
    now = 20;
    table.put('initech', 'd', 30);
    expect([dropped, table.names()]).toEqual([['acme a', 'acme b', 'globex c'], ['initech']]);
  });

  it('gives a row that is put again after its time the newest place', () => {
    let now = 0;
    const table = new BoundedTable<number>({ isOver: (until) => until <= now });
    table.put('acme', 'a', 30);
    table.put('acme', 'b', 10);
    table.put('acme', 'c', 30);
    now = 10;
    table.put('acme', 'b', 20);
    expect(table.entries('acme').map(([key]) => key)).toEqual(['a', 'c', 'b']);
  });

  it('refuses no row that is put where all others are held', () => {
    const table = tableOf();
    for (const key of 'abcdef') table.put('acme', key, { id: 0, isHeld: true });
    expect(table.values('acme')).toHaveLength(6);
  });

  it('keeps a row that is held no longer until another one is added', () => {
    const table = tableOf();
    for (const key of 'abcdef') table.put('acme', key, { id: 0, isHeld: true });
    table.put('acme', 'a', { id: 1, isHeld: false });
    expect(table.get('acme', 'a')).toEqual({ id: 1, isHeld: false });
    table.put('acme', 'g', { id: 0, isHeld: true });
    expect(table.entries('acme').map(([key]) => key)).toEqual('b c d e f g'.split(' '));
  });
});
