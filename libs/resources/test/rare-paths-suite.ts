import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { JsonObject, RunContext } from '@toolloop/core';
import { type FieldRules, ResourcePolicy, ToolResource } from '@toolloop/resources';
import {
  Customer,
  CustomerTools,
  Order,
  OrderTools,
  ROLE,
  seed,
  Shop,
  textOf,
  type User,
} from './shop.js';
import type { Storing } from './shop-storage.js';

/** Reads orders without their keys, as `max`, and everything as anyone else. */
@Injectable()
class KeyPolicy extends ResourcePolicy<User> {
  override readonly version = 'keys-1';

  override canRead(): boolean {
    return true;
  }

  override canWrite(): boolean {
    return true;
  }

  override fields({ actor }: RunContext<User>): FieldRules {
    return actor.id === 'max' ? { read: ['number', 'total', 'note'] } : {};
  }
}

@Injectable()
class OtherPolicy extends KeyPolicy {}

@ToolResource(Order, {
  namespace: 'orders',
  actions: {
    read: { load: ['internalStatus'] },
    update: { accept: ['note', 'street'], identity: 'orders_number' },
  },
  policy: KeyPolicy,
})
class GovernedOrders {}

@ToolResource(Order, { namespace: 'others', actions: ['read'], policy: OtherPolicy })
class OtherOrders {}

interface Page {
  readonly rows: readonly { readonly number?: string }[];
}

/** A filter that follows so many relations, with one condition on the rows of each. */
function followed(count: number): JsonObject {
  const any = { customer: { id: { is_null: false } } };
  return { filter: { or: Array.from({ length: count }, () => any) } };
}

const TOO_SLOW = 'The database took too long. Ask for less: a narrower filter, a smaller page.';

/** What a model may say that hardly any does, on any database. */
export function standsRarePaths(storing: Storing, { canBeSlow = true } = {}): void {
  describe('a read with rare arguments', () => {
    let shop: Shop;
    beforeAll(async () => {
      shop = await Shop.start({ storing, resources: [OrderTools, CustomerTools] });
      await seed(shop);
    });
    afterAll(() => shop?.close());
    const error = (args: JsonObject) => shop.error('orders__read', args);
    const numbers = async (args: JsonObject): Promise<unknown> =>
      ((await shop.read('orders__read', { ...args, select: ['number'] })) as Page).rows.map(
        ({ number }) => number,
      );

    it('counts each relation that a filter follows as a condition', async () => {
      expect(await error(followed(21))).toMatchObject({
        code: 'invalid_args',
        source: { pointer: '/filter/or/20/customer' },
      });
      expect(await numbers(followed(20))).toEqual(['o-1', 'o-2', 'o-3']);
    });

    it('finds nothing by a number that no column of its type can hold, and fails in no other way', async () => {
      const asked: readonly JsonObject[] = [
        { get_by: { id: 99_999_999_999 } },
        { filter: { pieces: { gt: 99_999_999_999 } } },
      ];
      for (const args of asked) {
        const { record, ui } = await shop.call('orders__read', args);
        expect(record.error?.code ?? ui).toEqual(record.error ? 'invalid_args' : { rows: [] });
      }
    });

    it.each([
      ['an empty key', { get_by: {} }, '/get_by'],
      ['a part of a key that is null', { get_by: { number: null } }, '/get_by'],
      [
        'a part of a key that is an object',
        { get_by: { number: { eq: 'o-1' } } },
        '/get_by/number',
      ],
      [
        'a key of a hidden field',
        { get_by: { internalStatus: 'acme only' } },
        '/get_by/internalStatus',
      ],
      ['a key of the tenant', { get_by: { tenant: 'globex', number: 'o-1' } }, undefined],
      [
        'a sort by a field of a relation',
        { sort: [{ field: 'customer.password' }] },
        '/sort/0/field',
      ],
      ['a sort by a relation', { sort: [{ field: 'customer' }] }, '/sort/0/field'],
      [
        'an aggregate of a field of a relation',
        { result_type: 'aggregate', aggregate: { kind: 'list', field: 'customer.password' } },
        '/aggregate/field',
      ],
      [
        'a list of a hidden field',
        { result_type: 'aggregate', aggregate: { kind: 'list', field: 'margin' } },
        '/aggregate/field',
      ],
      ['a hidden field', { select: ['internalStatus'] }, '/select/0'],
      ['a field that is not exposed', { select: ['margin'] }, '/select/0'],
      ['the tenant', { select: ['tenant'] }, '/select/0'],
      ['a hidden field in the place of a relation', { load: ['margin'] }, '/load/0'],
      ['a relation of a relation', { load: ['customer.orders'] }, '/load/0'],
      ['the prototype', { select: ['__proto__'] }, '/select/0'],
      ['the constructor', { filter: { constructor: { eq: 'x' } } }, '/filter/constructor'],
    ])('is refused for %s', async (_, args, pointer) => {
      const { status, source } = await error(args);
      expect([status, source?.pointer]).toEqual(['400', pointer]);
    });

    it.each([
      [
        'of another sort',
        { sort: [{ field: 'total' }] },
        { sort: [{ field: 'total', descending: true }] },
      ],
      ['of no sort', {}, { sort: [{ field: 'rating' }] }],
    ])('continues by no cursor %s', async (_, first, second) => {
      const { cursor } = (await shop.read('orders__read', { ...first, limit: 1 })) as {
        readonly cursor: string;
      };
      expect(await error({ ...second, cursor })).toMatchObject({ source: { pointer: '/cursor' } });
      expect(await shop.error('customers__read', { cursor })).toMatchObject({
        source: { pointer: '/cursor' },
      });
    });

    it('continues by a forged cursor in the rows of its tenant alone', async () => {
      const { cursor } = (await shop.read('orders__read', { limit: 1 })) as {
        readonly cursor: string;
      };
      const [signature] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as [string];
      const forged = (...values: readonly unknown[]): string =>
        Buffer.from(JSON.stringify([signature, ...values])).toString('base64url');
      expect(await numbers({ cursor: forged(0) })).toEqual(['o-1', 'o-2', 'o-3']);
      for (const value of [-1, 1e15, '1 or 1=1', '1', { $gt: 0 }, [1], null, true])
        expect(await shop.text('orders__read', { cursor: forged(value) })).not.toContain('globex');
      expect(await error({ cursor: forged() })).toMatchObject({ source: { pointer: '/cursor' } });
      expect(await error({ cursor: forged(1, 2) })).toMatchObject({
        source: { pointer: '/cursor' },
      });
    });

    it('keeps what is filtered and counted apart from the cursor of the page before', async () => {
      const { cursor } = (await shop.read('orders__read', { limit: 1 })) as {
        readonly cursor: string;
      };
      expect(await numbers({ cursor, filter: { express: { eq: true } } })).toEqual(['o-2']);
      expect(await shop.read('orders__read', { cursor, result_type: 'count' })).toEqual({
        count: 2,
      });
    });

    it.each([
      `o-1' or '1'='1`,
      String.raw`o-1\' or 1=1 --`,
      '?',
      '??',
      String.raw`\?`,
      ':value0',
      '$1',
      '"',
      '`',
      'o-1\u2028',
      '\u{1f600}',
      '--',
      '/*',
    ])('takes %j for a text, wherever it stands', async (text) => {
      for (const operator of ['eq', 'contains', 'starts_with'])
        expect(await numbers({ filter: { note: { [operator]: text } } })).toEqual([]);
      expect(await numbers({ filter: { note: { in: [text, text] } } })).toEqual([]);
      expect(
        await numbers({
          filter: { not: { note: { contains: text } }, number: { in: [text, 'o-2'] } },
        }),
      ).toEqual(['o-2']);
      expect(await numbers({ get_by: { number: text } })).toEqual([]);
      expect(await numbers({ filter: { customer: { name: { contains: text } } } })).toEqual([]);
    });
  });

  describe('a rule about fields', () => {
    let shop: Shop;
    beforeAll(async () => {
      shop = await Shop.start({
        storing,
        resources: [GovernedOrders, CustomerTools],
        providers: [KeyPolicy],
      });
    });
    beforeEach(() => seed(shop));
    afterAll(() => shop?.close());
    const read = async (actorId: string, args: JsonObject = {}): Promise<unknown> => {
      const { content, record } = await shop.call('orders__read', args, 'acme', actorId);
      return record.status === 'succeeded'
        ? (JSON.parse(textOf(content)) as unknown)
        : record.error?.code;
    };

    it('hides the key of a row as it hides any other field', async () => {
      expect(await read('max', { limit: 1, sort: [{ field: 'number' }] })).toEqual({
        rows: [{ number: 'o-1', total: '10.50', note: null }],
      });
      expect(
        await read('max', { limit: 1, select: ['number'], sort: [{ field: 'number' }] }),
      ).toEqual({ rows: [{ number: 'o-1' }] });
      const asked: readonly JsonObject[] = [
        { get_by: { id: 1 } },
        { filter: { id: { eq: 1 } } },
        { sort: [{ field: 'id' }] },
        { select: ['id'] },
        { result_type: 'aggregate', aggregate: { kind: 'list', field: 'id' } },
      ];
      for (const args of asked) expect(await read('max', args)).toBe('invalid_args');
      expect(await read('ada', { limit: 1, select: ['number'] })).toMatchObject({
        rows: [{ id: 1, number: 'o-1' }],
      });
    });

    it('hides them in what a write returns, and behind a relation', async () => {
      const written = await shop.call(
        'orders__update',
        { number: 'o-2', input: { note: 'mine' } },
        'acme',
        'max',
      );
      expect(JSON.parse(textOf(written.content))).toEqual({
        number: 'o-2',
        total: '20.00',
        note: 'mine',
      });
      const loaded = await shop.call(
        'customers__read',
        { filter: { id: { eq: 1 } }, load: ['orders'] },
        'acme',
        'max',
      );
      expect(JSON.parse(textOf(loaded.content))).toMatchObject({
        rows: [
          {
            id: 1,
            orders: [
              { number: 'o-1', total: '10.50', note: null },
              { number: 'o-2', total: '20.00', note: 'mine' },
            ],
          },
        ],
      });
      expect(textOf(loaded.content)).not.toMatch(/"pieces"|"id":[2-9]/);
    });
  });

  it('is not started with two policies of one entity, of which one would hold nowhere', async () => {
    const start = Shop.start({
      storing,
      resources: [GovernedOrders, OtherOrders, CustomerTools],
      providers: [KeyPolicy, OtherPolicy],
    });
    await expect(start.then((shop) => shop.close())).rejects.toThrow('KeyPolicy and OtherPolicy');
  });

  describe('an application that does not check arguments by their schema', () => {
    let shop: Shop;
    beforeAll(async () => {
      shop = await Shop.start({ storing, options: { execution: { validation: false } } });
      await seed(shop);
    });
    afterAll(() => shop?.close());

    it('clears no field that is not accepted', async () => {
      for (const name of ['internalStatus', 'margin', 'tenant', 'version', 'number', 'nothing']) {
        const { record } = await shop.call('orders__update', {
          id: 1,
          input: { note: 'x' },
          clear: [name],
        });
        expect(record.status).toBe('failed');
      }
      expect(
        await shop.sql('select tenant, number, margin, note from orders where id = 1'),
      ).toEqual([{ tenant: 'acme', number: 'o-1', margin: '1', note: null }]);
    });
  });

  if (!canBeSlow) return;

  describe('a statement that takes too long', () => {
    let shop: Shop;
    beforeAll(async () => {
      shop = await Shop.start({ storing, gateway: { tenancy: { role: ROLE }, statementMs: 150 } });
      await seed(shop);
      await shop.sql(
        `create function takes_long() returns boolean language sql as 'select true from pg_sleep(5)'`,
      );
      await shop.sql('create policy takes_long on orders as restrictive using (takes_long())');
    });
    afterAll(() => shop?.close());

    it.each<[string, JsonObject]>([
      ['rows', {}],
      ['rows and what they refer to', { load: ['customer'] }],
      ['a count', { result_type: 'count' }],
      ['an aggregate', { result_type: 'aggregate', aggregate: { kind: 'sum', field: 'total' } }],
    ])('is given up, and the model told so (%s)', async (_, args) => {
      expect(await shop.error('orders__read', args)).toMatchObject({ detail: TOO_SLOW });
    });

    it('holds up no other entity', async () => {
      expect(((await shop.read('customers__read')) as Page).rows).toHaveLength(2);
      expect(shop.gateway.describe(Customer)?.key).toBe('id');
    });
  });
}
