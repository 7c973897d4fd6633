import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ToolCatalog } from '@toolloop/core';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { Shop } from './shop.js';

const MOST_BYTES = 4_096;

describe('the schemas of a resource with twenty fields', () => {
  let shop: Shop;
  beforeAll(async () => {
    shop = await Shop.start({ storing: mikroOrm(inMemory) });
  });
  afterAll(() => shop.close());

  const schemaOf = (id: string): string =>
    JSON.stringify(shop.module.get(ToolCatalog).find(id)?.spec.inputSchema);

  it.each(['orders__read', 'orders__create', 'orders__update', 'orders__destroy'])(
    'keeps the input of %s under 4 KB',
    (id) => {
      expect(schemaOf(id)).toContain('"properties"');
      expect(Buffer.byteLength(schemaOf(id))).toBeLessThan(MOST_BYTES);
    },
  );

  it('is the same in every process', async () => {
    const other = await Shop.start({ storing: mikroOrm(inMemory) });
    for (const id of ['orders__read', 'orders__create', 'customers__update'])
      expect(JSON.stringify(other.module.get(ToolCatalog).find(id)?.spec.inputSchema)).toBe(
        schemaOf(id),
      );
    await other.close();
  });

  it('names no field that is hidden or not exposed', () => {
    for (const id of ['orders__read', 'orders__create', 'orders__update', 'customers__create'])
      expect(schemaOf(id)).not.toMatch(/internalStatus"?:|margin|password|tenant/);
  });

  it('requires what the database does not set itself', () => {
    const { properties } = JSON.parse(schemaOf('orders__create')) as {
      properties: { input: { required: string[] } };
    };
    expect(properties.input.required).toEqual(['number', 'total']);
  });
});
