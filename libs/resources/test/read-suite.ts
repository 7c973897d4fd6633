import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { seed, Shop } from './shop.js';
import type { Storing } from './shop-storage.js';

interface Row {
  readonly id: number;
  readonly number: string;
  readonly [name: string]: unknown;
}
interface Page {
  readonly rows: readonly Row[];
  readonly cursor?: string;
  readonly count?: number;
  readonly exists?: boolean;
  readonly value?: unknown;
  readonly values?: readonly unknown[];
}

const numbers = ({ rows }: Page): readonly string[] => rows.map(({ number }) => number);

/** What a read does, on any database. */
export function readsRows(storing: Storing): void {
  let shop: Shop;
  beforeAll(async () => {
    shop = await Shop.start({ storing });
    await seed(shop);
  });
  afterAll(() => shop?.close());
  const read = (args: object = {}, tenant?: string): Promise<Page> =>
    shop.read('orders__read', args as never, tenant);
  const namesOf = async (filter: object): Promise<unknown> =>
    ((await shop.read('customers__read', { filter } as never)) as Page).rows.map(
      ({ name }) => name,
    );
  const error = (args: object) => shop.error('orders__read', args as never);

  describe('orders__read', () => {
    it('returns the rows of the tenant with their exposed fields, and what is loaded', async () => {
      const page = await read();
      expect(numbers(page)).toEqual(['o-1', 'o-2', 'o-3']);
      expect(page.rows[0]).toMatchObject({
        status: 'paid',
        total: '10.50',
        pieces: 3,
        internalStatus: 'acme only',
        placedOn: '2026-01-05',
      });
      expect(Object.keys(page.rows[0] ?? {})).not.toEqual(expect.arrayContaining(['margin']));
      expect(JSON.stringify(page)).not.toMatch(/tenant|margin|s3cret|globex/);
    });

    it.each<[string, object, readonly string[]]>([
      ['eq', { status: { eq: 'paid' } }, ['o-1']],
      ['ne, also of nulls', { rating: { ne: 5 } }, ['o-2', 'o-3']],
      ['in', { number: { in: ['o-1', 'o-3', 'o-4'] } }, ['o-1', 'o-3']],
      ['an empty in', { number: { in: [] } }, []],
      ['not of an in', { not: { status: { in: ['paid', 'cancelled'] } } }, ['o-2']],
      ['decimals as numbers', { total: { gt: 9.99 } }, ['o-1', 'o-2']],
      ['decimals as texts', { total: { gt: '9.99', ne: '20.00' } }, ['o-1']],
      ['whole numbers as texts', { pieces: { in: ['3', '4'] } }, ['o-1']],
      [
        'whole numbers that JSON cannot say',
        { trackingId: { eq: '1152921504606846977' } },
        ['o-3'],
      ],
      [
        'not of whole numbers that JSON cannot say',
        { not: { trackingId: { lt: '1152921504606846977' } } },
        ['o-1', 'o-3'],
      ],
      ['days', { placedOn: { gte: '2026-01-05', lt: '2026-02-05' } }, ['o-1']],
      ['moments', { shippedAt: { eq: '2026-03-01T13:00:00.123+01:00' } }, ['o-3']],
      ['contains without regard to case', { note: { contains: 'SECRET OF' } }, ['o-2']],
      ['signs of like as themselves', { note: { contains: '%' } }, []],
      ['starts_with', { number: { starts_with: 'O-' } }, ['o-1', 'o-2', 'o-3']],
      ['is_null', { rating: { is_null: true } }, ['o-2']],
      ['booleans', { express: { eq: true } }, ['o-2']],
      ['or', { or: [{ number: { eq: 'o-1' } }, { express: { eq: true } }] }, ['o-1', 'o-2']],
      ['not, also of nulls', { not: { rating: { gt: 3 } } }, ['o-2', 'o-3']],
      [
        'not of several',
        { not: { status: { eq: 'paid' }, express: { eq: true } } },
        ['o-1', 'o-2', 'o-3'],
      ],
      ['a relation', { customer: { name: { starts_with: 'ann' } } }, ['o-1', 'o-2']],
      ['not of a relation', { not: { customer: { name: { starts_with: 'ann' } } } }, ['o-3']],
      ['a null behind a relation', { customer: { city: { is_null: true } } }, ['o-3']],
      ['everything', {}, ['o-1', 'o-2', 'o-3']],
    ])('filters by %s', async (_, filter, expected) => {
      expect(numbers(await read({ filter }))).toEqual(expected);
      expect(await read({ filter, result_type: 'count' })).toEqual({ count: expected.length });
      expect(await read({ filter, result_type: 'exists' })).toEqual({
        exists: expected.length > 0,
      });
    });

    it('filters by rows of a relation to many', async () => {
      expect(await namesOf({ orders: { status: { eq: 'cancelled' } } })).toEqual(['Bob of acme']);
      expect(await namesOf({ not: { orders: { status: { eq: 'cancelled' } } } })).toEqual([
        'Ann of acme',
      ]);
    });

    it('sorts, nulls last in either direction', async () => {
      expect(numbers(await read({ sort: [{ field: 'rating' }] }))).toEqual(['o-3', 'o-1', 'o-2']);
      expect(numbers(await read({ sort: [{ field: 'rating', descending: true }] }))).toEqual([
        'o-1',
        'o-3',
        'o-2',
      ]);
      expect(
        numbers(await read({ sort: [{ field: 'total', descending: true }], limit: 1, offset: 1 })),
      ).toEqual(['o-1']);
    });

    it.each([
      [[{ field: 'rating' }]],
      [[{ field: 'rating', descending: true }]],
      [[{ field: 'express' }, { field: 'total', descending: true }]],
      [[{ field: 'shippedAt' }]],
      [[]],
    ])('goes from page to page by a cursor, through nulls too (%j)', async (sort) => {
      const whole = numbers(await read({ sort }));
      const found: string[] = [];
      let page = await read({ sort, limit: 1 });
      found.push(...numbers(page));
      while (page.cursor !== undefined) {
        page = await read({ sort, limit: 1, cursor: page.cursor });
        found.push(...numbers(page));
      }
      expect(found).toEqual(whole);
    });

    it.each<[string, string, string, unknown]>([
      ['count', 'rating', 'those that are not null', 2],
      ['sum', 'pieces', 'whole numbers', 4],
      ['sum', 'total', 'decimals exactly', '35.75'],
      ['avg', 'rating', 'a number', 3.5],
      ['min', 'placedOn', 'days', '2026-01-05'],
      ['max', 'shippedAt', 'moments', '2026-03-01T12:00:00.123Z'],
      ['max', 'total', 'decimals', '20.00'],
      ['list', 'status', 'each value once', ['cancelled', 'new', 'paid']],
      ['list', 'placedOn', 'days', ['2026-01-05', '2026-02-05']],
    ])('aggregates: %s of %s (%s)', async (kind, field, _, value) => {
      expect(await read({ result_type: 'aggregate', aggregate: { kind, field } })).toEqual(
        kind === 'list' ? { values: value } : { value },
      );
    });

    it('aggregates the rows of a filter, and says null of none', async () => {
      const aggregate = { kind: 'sum', field: 'total' };
      expect(
        await read({
          result_type: 'aggregate',
          aggregate,
          filter: { customer: { name: { contains: 'ann' } } },
        }),
      ).toEqual({
        value: '30.50',
      });
      expect(
        await read({ result_type: 'aggregate', aggregate, filter: { number: { eq: 'none' } } }),
      ).toEqual({ value: null });
    });

    it('gets one row by a unique key', async () => {
      expect(numbers(await read({ get_by: { number: 'o-2' } }))).toEqual(['o-2']);
      expect(numbers(await read({ get_by: { number: 'o-4' } }))).toEqual([]);
      expect(await error({ get_by: { id: 1, number: 'o-1' } })).toMatchObject({
        code: 'invalid_args',
        source: { pointer: '/get_by' },
      });
    });

    it('returns the selected fields, and loads relations', async () => {
      const page = await read({ select: ['number'], load: ['customer'], limit: 1 });
      expect(page.rows).toEqual([
        {
          id: 1,
          number: 'o-1',
          internalStatus: 'acme only',
          customer: { id: 1, name: 'Ann of acme', email: 'ann@example.com', city: 'Bath' },
        },
      ]);
      const customers: Page = await shop.read('customers__read', {
        load: ['orders'],
        select: ['name'],
      });
      expect(customers.rows).toMatchObject([
        { name: 'Ann of acme', orders: [{ number: 'o-1' }, { number: 'o-2' }] },
        { orders: [{ number: 'o-3' }] },
      ]);
      // what one resource loads, another does not
      expect(JSON.stringify(customers)).not.toContain('acme only');
    });

    it('returns no field by which rows were ordered unless it is selected', async () => {
      const sort = [{ field: 'total', descending: true }];
      const first = await read({ select: ['number'], sort, limit: 1 });
      expect(first.rows).toEqual([{ id: 2, number: 'o-2', internalStatus: null }]);
      const { rows } = await read({ select: ['number'], sort, limit: 2, cursor: first.cursor });
      expect(rows.map((row) => Object.keys(row).toSorted())).toEqual([
        ['id', 'internalStatus', 'number'],
        ['id', 'internalStatus', 'number'],
      ]);
    });

    it.each<[string, object, string]>([
      ['a hidden field', { filter: { internalStatus: { eq: 'x' } } }, '/filter/internalStatus'],
      ['a field that is not exposed', { filter: { margin: { eq: '1' } } }, '/filter/margin'],
      ['a sort by a hidden field', { sort: [{ field: 'internalStatus' }] }, '/sort/0/field'],
      [
        'an aggregate of a hidden field',
        { result_type: 'aggregate', aggregate: { kind: 'count', field: 'internalStatus' } },
        '/aggregate/field',
      ],
      [
        'an operator object in a value',
        { filter: { number: { eq: { $ne: null } } } },
        '/filter/number/eq',
      ],
      ['an operator of the ORM', { filter: { number: { $ne: 'x' } } }, '/filter/number/$ne'],
      [
        'SQL in the name of a field',
        { filter: { "id' or 1=1 --": { eq: 1 } } },
        "/filter/id' or 1=1 --",
      ],
      [
        'a hidden field of a relation',
        { filter: { customer: { password: { starts_with: 's' } } } },
        '/filter/customer/password',
      ],
      [
        'a relation of a relation',
        { filter: { customer: { orders: { number: { eq: 'o-1' } } } } },
        '/filter/customer/orders',
      ],
      [
        'a sum of texts',
        { result_type: 'aggregate', aggregate: { kind: 'sum', field: 'note' } },
        '/aggregate/kind',
      ],
      ['an aggregate that is not said', { result_type: 'aggregate' }, '/aggregate'],
      [
        'a day that does not exist',
        { filter: { placedOn: { eq: '2026-02-30' } } },
        '/filter/placedOn/eq',
      ],
      ['a forged cursor', { cursor: Buffer.from('["x",1]').toString('base64url') }, '/cursor'],
      ['a page that is too large', { limit: 51 }, '/limit'],
      [
        'too many conditions',
        { filter: { or: Array.from({ length: 41 }, (_, index) => ({ pieces: { eq: index } })) } },
        '/filter/or/40/pieces/eq',
      ],
      [
        'too many levels',
        { filter: { not: { not: { not: { not: { not: { pieces: { eq: 1 } } } } } } } },
        '/filter/not/not/not/not/not',
      ],
    ])('refuses %s at its place', async (_, args, pointer) => {
      expect(await error(args)).toMatchObject({ status: '400', source: { pointer } });
    });

    it('says nothing of the database where a statement fails', async () => {
      await shop.sql('alter table orders rename column weight to mass');
      const { detail, status } = await error({ filter: { weight: { gt: 1 } } });
      await shop.sql('alter table orders rename column mass to weight');
      expect(status).toBe('500');
      expect(detail).not.toMatch(/column|weight|select|orders/i);
    });

    it('takes null for no arguments', async () => {
      const { record } = await shop.loop.call({
        tool: 'orders__read',
        args: null as never,
        actor: { id: 'ada' },
        tenant: 'acme',
      });
      expect(record.status).toBe('succeeded');
    });
  });
}
