import { describe, expect, it } from '@jest/globals';
import { TenantTable } from '../../src/desk/tenant-table.js';
import { customerOf, orderDesk } from './order-desk.js';

describe('the stored data', () => {
  it('gives the same id to two people of two tenants', async () => {
    const desk = orderDesk();
    const names = await Promise.all(['acme', 'globex'].map(async (tenant) => (await customerOf(desk, tenant, 'c-123')).name));
    expect(names).toEqual(['John Smith', 'Priya Natarajan']);
  });

  it("finds no other tenant's customers", async () => {
    const { customers } = orderDesk();
    expect(await customers.search('globex', 'Smith', 25)).toEqual([]);
    expect(await customers.find('globex', 'c-124')).toBeUndefined();
  });

  it('is empty for a tenant without seeds', async () => {
    const { customers, orders, products } = orderDesk();
    const found = [
      await customers.search('__proto__', 'John', 25),
      await orders.list('initech', {}),
      await products.search('', { inStockOnly: false, limit: 50 }),
    ];
    expect(found).toEqual([[], [], []]);
  });

  it('numbers carts and orders per tenant', async () => {
    const { carts } = orderDesk();
    await carts.open('acme', 'c-123');
    expect((await carts.open('globex', 'c-123')).id).toBe('cart-1');
  });

  it('is not shared by two desks', async () => {
    const one = orderDesk();
    await one.products.take('acme', [{ productId: 'p-104', quantity: 3 }]);
    expect((await orderDesk().products.get('acme', 'p-104')).inStock).toBe(3);
  });
});

describe('a search by name', () => {
  it.each([
    ['john smith', ['John Smith']],
    ['SMITH', ['John Smith', 'Laura Smith']],
    ['smith, j', ['John Smith']],
    ['kaminski', ['Zoë Kamiński']],
    ['ohn', []],
  ])('finds, for "%s", %j', async (query, names) => {
    const found = await orderDesk().customers.search('acme', query, 25);
    expect(found.map(({ name }) => name)).toEqual(names);
  });
});

describe('a transaction', () => {
  it('is undone by what it throws', async () => {
    const table = new TenantTable({ acme: [{ id: 'a', pieces: 1 }] });
    const failed = table.transaction('acme', (rows) => {
      rows.set('a', { id: 'a', pieces: 0 });
      throw new Error('no');
    });
    await expect(failed).rejects.toThrow('no');
    expect(await table.list('acme')).toEqual([{ id: 'a', pieces: 1 }]);
  });
});
