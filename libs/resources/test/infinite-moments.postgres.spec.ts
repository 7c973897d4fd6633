import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { JsonObject } from '@toolloop/core';
import { describePostgres } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { onServer } from './server.js';
import { seed, Shop } from './shop.js';
import type { Storing } from './shop-storage.js';
import { typeOrm } from './typeorm-storage.js';

interface Page {
  readonly rows: readonly { readonly number: string }[];
  readonly cursor?: string;
  readonly value?: unknown;
  readonly values?: readonly unknown[];
}

/**
 * What a read does with moments that come before or after all others, which PostgreSQL alone has.
 */
function readsEndlessMoments(storing: Storing): void {
  let shop: Shop;
  beforeAll(async () => {
    shop = await Shop.start({ storing });
    await seed(shop);
    const [column] = await shop.storage.sql<{ readonly name: string }>(
      `select column_name as name from information_schema.columns where table_name = 'orders' and column_name in ('shipped_at', 'shippedAt')`,
    );
    const name = `"${column?.name}"`;
    await shop.storage.sql(
      `update orders set ${name} = (case number when 'o-1' then 'infinity' else '-infinity' end)::timestamptz where number in ('o-1', 'o-2')`,
    );
  });
  afterAll(() => shop?.close());
  const read = (args: JsonObject): Promise<Page> => shop.read('orders__read', args);
  const aggregated = (kind: string): Promise<Page> =>
    read({ result_type: 'aggregate', aggregate: { kind, field: 'shippedAt' } });

  /** The numbers of the orders, a page for each. */
  async function pages(sort: readonly JsonObject[]): Promise<readonly string[]> {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await read({
        sort: [...sort],
        limit: 1,
        select: ['number'],
        ...(cursor !== undefined && { cursor }),
      });
      found.push(...page.rows.map(({ number }) => number));
      cursor = page.cursor;
    } while (cursor !== undefined && found.length < 9);
    return found;
  }

  it.each([
    [false, ['o-2', 'o-3', 'o-1']],
    [true, ['o-1', 'o-3', 'o-2']],
  ])('are each on one page of an order by them, descending: %s', async (descending, expected) => {
    expect(await pages([{ field: 'shippedAt', descending }])).toEqual(expected);
  });

  it('are each on one page where the cursor has the key alone, since the order has a text from outside', async () => {
    expect(await pages([{ field: 'street' }, { field: 'shippedAt' }])).toEqual([
      'o-2',
      'o-3',
      'o-1',
    ]);
  });

  it('are aggregated as the words that PostgreSQL has for them', async () => {
    expect(await aggregated('max')).toEqual({ value: 'infinity' });
    expect(await aggregated('list')).toEqual({
      values: ['-infinity', '2026-03-01T12:00:00.123Z', 'infinity'],
    });
  });
}

describe('moments without an end', () => {
  describePostgres('with MikroORM on PostgreSQL', () => readsEndlessMoments(mikroOrm(onServer)));
  describePostgres('with TypeORM on PostgreSQL', () => readsEndlessMoments(typeOrm(onServer)));
});
