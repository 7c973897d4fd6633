import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import * as M from '@mikro-orm/decorators/legacy';
import { Injectable } from '@nestjs/common';
import type { JsonObject, RunContext } from '@toolloop/core';
import { ResourcePolicy, ToolResource } from '@toolloop/resources';
import { Expose, Type } from 'class-transformer';
import * as T from 'typeorm';
import { type Orm, OrmApp } from './orm-app.js';

@T.Entity('shelves')
@M.Entity({ tableName: 'shelves' })
export class Shelf {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  id!: number;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40 })
  @Expose()
  name!: string;
}

@T.Entity('crates')
@M.Entity({ tableName: 'crates' })
export class Crate {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  id!: number;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40 })
  @Expose()
  name!: string;
  @T.Column({ type: 'varchar', length: 40, nullable: true })
  @M.Property({ type: 'string', length: 40, nullable: true })
  @Expose()
  color?: string | null;
  @T.Column({ type: 'int' })
  @M.Property({ type: 'integer' })
  @Expose()
  amount!: number;
  @T.ManyToOne(() => Shelf, { nullable: true })
  @T.JoinColumn({ name: 'shelf_id' })
  @M.ManyToOne({ entity: () => Shelf, nullable: true, fieldName: 'shelf_id' })
  @Expose()
  @Type(() => Shelf)
  shelf?: Shelf | null;
}

/** A policy whose rows are what a test sets. */
@Injectable()
class CratePolicy extends ResourcePolicy {
  static asked: JsonObject | undefined = undefined;
  override readonly version = 'crates-1';

  override canRead(): boolean {
    return true;
  }

  override canWrite(): boolean {
    return true;
  }

  override rows(_: RunContext): JsonObject | undefined {
    return CratePolicy.asked;
  }
}

@ToolResource(Crate, {
  namespace: 'crates',
  actions: {
    read: true,
    update: { identity: false, bulk: 10, accept: ['color'] },
    destroy: { identity: false, bulk: 10 },
  },
  policy: CratePolicy,
})
class CrateTools {}

@ToolResource(Shelf, { namespace: 'shelves', actions: ['read'] })
class ShelfTools {}

type Filter = unknown;

/** Filters with a part that says nothing, and the place of that part. */
const EMPTY: readonly (readonly [title: string, filter: Filter, pointer: string])[] = [
  ['a column whose operators are all null', { name: { eq: null, ne: null } }, '/name'],
  ['a column whose only operator is null', { color: { ne: null } }, '/color'],
  ['a column whose is_null is null', { color: { is_null: null } }, '/color'],
  ['a column with an in that is null', { name: { in: null } }, '/name'],
  ['a column without an operator', { name: {} }, '/name'],
  ['a column whose operator is undefined', { name: { eq: undefined } }, '/name'],
  ['an empty column beside one that says more', { id: { eq: 1 }, name: { eq: null } }, '/name'],
  ['a relation without a column', { shelf: {} }, '/shelf'],
  ['a relation whose columns are all null', { shelf: { name: null } }, '/shelf'],
  ['a column of a relation', { shelf: { name: { eq: null } } }, '/shelf/name'],
  ['a not without a part', { not: {} }, '/not'],
  ['a not whose columns are all null', { not: { name: null } }, '/not'],
  ['a not of an empty column', { not: { name: { eq: null } } }, '/not/name'],
  ['a not of a not without a part', { not: { not: {} } }, '/not/not'],
  ['a not of an empty relation', { not: { shelf: {} } }, '/not/shelf'],
  ['an and without items', { and: [] }, '/and'],
  ['an and of an empty item', { and: [{ id: { eq: 1 } }, {}] }, '/and/1'],
  ['an and of an empty column', { and: [{ name: { eq: null } }] }, '/and/0/name'],
  ['an or without items', { or: [] }, '/or'],
  ['an or of an empty item', { or: [{ id: { eq: 1 } }, {}] }, '/or/1'],
  ['an or of an item of nulls', { or: [{ id: { eq: 1 } }, { name: null }] }, '/or/1'],
  ['an or of an empty column', { or: [{ id: { eq: 1 } }, { name: { eq: null } }] }, '/or/1/name'],
  ['a not of an or without items', { not: { or: [] } }, '/not/or'],
  ['an or within an and without items', { and: [{ or: [] }] }, '/and/0/or'],
  ['a text that contains nothing', { name: { contains: '' } }, '/name/contains'],
  ['a text that starts with nothing', { color: { starts_with: '' } }, '/color/starts_with'],
  ['an empty text of a related row', { shelf: { name: { contains: '' } } }, '/shelf/name/contains'],
];

/** Filters in which something is said beside the nulls, and the rows that they match. */
const SAID: readonly (readonly [title: string, filter: Filter, ids: readonly number[]])[] = [
  ['a null beside another operator', { amount: { eq: null, gt: 1, lt: null, in: null } }, [2, 3]],
  ['a null column beside another', { name: null, color: null, shelf: null, id: { eq: 2 } }, [2]],
  ['null for and, or and not', { and: null, or: null, not: null, id: { in: [1, 3] } }, [1, 3]],
  ['rows without a value', { color: { is_null: true, eq: null } }, [2, 3]],
  ['an in without values', { name: { in: [] } }, []],
  ['an or of an in without values', { or: [{ name: { in: [] } }, { id: { eq: 3 } }] }, [3]],
  ['rows that have a related one', { shelf: { id: { is_null: false } } }, [1, 2]],
  ['nulls within a not', { not: { name: { eq: null, ne: 'b' }, color: null } }, [2]],
];

/** Filters of which an absent part is all, as it is if there is no filter. */
const ABSENT: readonly (readonly [title: string, filter: Filter])[] = [
  ['no filter', undefined],
  ['null', null],
  ['an empty filter', {}],
  ['a filter of nulls', { name: null, shelf: null, or: null }],
  ['a filter of undefined', { name: undefined }],
];

/** Filters that hold for each row by what they say. */
const ALL: readonly (readonly [title: string, filter: Filter])[] = [
  ['not one of none', { not: { name: { in: [] } } }],
  ['not one of none, or another', { or: [{ not: { name: { in: [] } } }, { id: { eq: 1 } }] }],
  ['a value where there is always one', { name: { is_null: false } }],
  ['no related row of those that cannot be', { not: { shelf: { id: { is_null: true } } } }],
  ['no related row that is one of none', { not: { shelf: { name: { in: [] } } } }],
  [
    'no related row that cannot be, or another condition',
    { or: [{ not: { shelf: { id: { is_null: true } } } }, { id: { eq: 1 } }] },
  ],
];

/** Arguments with a filter of code, which need not be JSON. */
function argsOf(filter: Filter, more: JsonObject = {}): JsonObject {
  return { ...more, filter: filter as JsonObject };
}

const WHAT_TO_DO = /Say the condition, or leave it out/;

/** A condition that is empty, or that nulls have emptied, never widens a filter. */
export function refusesEmptyConditions(orm: Orm): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({
      orm,
      entities: [Shelf, Crate],
      resources: [CrateTools, ShelfTools],
      providers: [CratePolicy],
    });
  });
  afterAll(() => app?.close());
  beforeEach(async () => {
    CratePolicy.asked = undefined;
    await app.sql('delete from crates');
    await app.sql('delete from shelves');
    await app.sql(`insert into shelves (id, tenant, name) values (1, 'acme', 'top')`);
    await app.sql(`insert into crates (id, tenant, name, color, amount, shelf_id) values
      (1, 'acme', 'a', 'red', 1, 1), (2, 'acme', 'b', null, 2, 1), (3, 'acme', 'c', null, 3, null)`);
  });
  const stored = async (): Promise<readonly unknown[]> =>
    app.sql(`select id, color from crates order by id`);
  const UNTOUCHED = [
    { id: 1, color: 'red' },
    { id: 2, color: null },
    { id: 3, color: null },
  ];
  const READS: readonly (readonly [title: string, args: JsonObject])[] = [
    ['a read', {}],
    ['a count', { result_type: 'count' }],
    ['a question for any', { result_type: 'exists' }],
    ['an aggregate', { result_type: 'aggregate', aggregate: { kind: 'sum', field: 'amount' } }],
  ];
  const WRITES: readonly (readonly [tool: string, args: JsonObject])[] = [
    ['crates__update', { input: { color: 'gone' } }],
    ['crates__destroy', {}],
  ];

  describe.each(EMPTY)('%s', (_, filter, pointer) => {
    it('is refused at its place by each read', async () => {
      for (const [, args] of READS)
        expect(await app.error('crates__read', argsOf(filter, args))).toMatchObject({
          code: 'invalid_args',
          source: { pointer: `/filter${pointer}` },
          detail: expect.stringMatching(WHAT_TO_DO),
        });
    });

    it.each(WRITES)('is refused at its place by %s, which writes nothing', async (tool, args) => {
      expect(await app.error(tool, argsOf(filter, args))).toMatchObject({
        code: 'invalid_args',
        source: { pointer: `/filter${pointer}` },
        detail: expect.stringMatching(WHAT_TO_DO),
      });
      expect(await stored()).toEqual(UNTOUCHED);
    });
  });

  describe.each(SAID)('%s', (_, filter, ids) => {
    it('matches what is said', async () => {
      const { rows } = await app.read<{ readonly rows: readonly { readonly id: number }[] }>(
        'crates__read',
        argsOf(filter, { sort: [{ field: 'id' }] }),
      );
      expect(rows.map(({ id }) => id)).toEqual(ids);
    });

    it('is about the same rows in a destroy', async () => {
      await app.call('crates__destroy', argsOf(filter));
      const left = UNTOUCHED.filter(({ id }) => !ids.includes(id));
      expect(await stored()).toEqual(left);
    });
  });

  describe.each(ABSENT)('%s', (_, filter) => {
    it('is all rows to a read, and none to a write', async () => {
      expect(await app.read('crates__read', argsOf(filter, { result_type: 'count' }))).toEqual({
        count: 3,
      });
      for (const [tool, args] of WRITES)
        expect(await app.error(tool, argsOf(filter, args))).toMatchObject({
          code: 'invalid_args',
        });
      expect(await stored()).toEqual(UNTOUCHED);
    });
  });

  describe.each(ALL)('%s', (_, filter) => {
    it('is all rows to a read, and none to a write, which is to say what it means', async () => {
      expect(await app.read('crates__read', argsOf(filter, { result_type: 'count' }))).toEqual({
        count: 3,
      });
      for (const [tool, args] of WRITES)
        expect(await app.error(tool, argsOf(filter, args))).toMatchObject({
          source: { pointer: '/filter' },
          detail: expect.stringContaining('which rows are meant'),
        });
      expect(await stored()).toEqual(UNTOUCHED);
    });
  });

  describe.each([
    ['null', { id: null }],
    ['nothing', {}],
    ['undefined', { id: undefined }],
  ] as const)('a key of %s', (_, key) => {
    it('names no row', async () => {
      const args = { get_by: key as JsonObject };
      await expect(app.error('crates__read', args)).resolves.toMatchObject({
        code: 'invalid_args',
        source: { pointer: '/get_by' },
      });
    });
  });

  it.each<readonly [title: string, filter: Filter, pointer?: string]>([
    ...EMPTY,
    ['a filter without a condition', {}],
    ['a null', null],
    ['a list', []],
    ['a column that is undefined', { name: undefined }],
  ])('%s denies every row in the rows of a policy', async (_, filter) => {
    CratePolicy.asked = filter as JsonObject;
    const { record } = await app.call('crates__read');
    expect(record.status).toBe('denied');
    const destroyed = await app.call('crates__destroy', { filter: { amount: { gt: 0 } } });
    expect(destroyed.record.status).not.toBe('succeeded');
    expect(await stored()).toEqual(UNTOUCHED);
  });

  it('shows all rows of the tenant where a policy names none', async () => {
    expect(await app.read('crates__read', { result_type: 'count' })).toEqual({ count: 3 });
  });

  it('a cursor whose filter has an empty part is refused', async () => {
    const page = await app.read<{ readonly cursor: string }>('crates__read', { limit: 1 });
    const { cursor } = page;
    expect(
      await app.error('crates__read', { cursor, filter: { name: { eq: null } } }),
    ).toMatchObject({ source: { pointer: '/filter/name' } });
  });
}
