import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ROW_SECURITY } from '../../src/desk/migrations.js';
import { Cart, Customer, Order, Product } from '../../src/desk/entities.js';
import { CustomerTools } from '../../src/customers/customer-tools.js';
import { callOf, closeOrderDesks, orderDesk, type OrderDesk } from './order-desk.js';

let desk: OrderDesk;
beforeAll(async () => {
  desk = await orderDesk();
});
afterAll(closeOrderDesks);

const search = (tenant: string, name: string): Promise<Customer[]> =>
  new CustomerTools(desk.gateway).searchCustomers({ name, limit: 25 }, callOf(tenant));

describe('the stored data', () => {
  it('gives the same id to two people of two tenants', async () => {
    const names = await Promise.all(
      ['acme', 'globex'].map(async (tenant) => (await desk.customer(tenant, 'c-123')).name),
    );
    expect(names).toEqual(['John Smith', 'Priya Natarajan']);
  });

  it("finds no other tenant's customers", async () => {
    expect(await search('globex', 'Smith')).toEqual([]);
    await expect(desk.customer('globex', 'c-124')).rejects.toThrow('not found');
  });

  it('is empty for a tenant without seeds', async () => {
    for (const tenant of ['__proto__', 'initech', ''])
      expect(await search(tenant, 'John')).toEqual([]);
  });

  it('numbers carts and orders per tenant', async () => {
    await desk.openCart();
    expect((await Cart.open(desk.gateway, callOf('globex'), 'c-123')).id).toBe('cart-1');
  });

  it.each(['customers', 'products', 'orders', 'carts'])(
    'shows the %s of its tenant alone to SQL that names none',
    async (table) => {
      const tenants = await desk.gateway.within(callOf('globex'), (em) =>
        em.execute(`select distinct tenant from desk.${table}`),
      );
      expect(tenants).toEqual([{ tenant: 'globex' }]);
    },
  );

  it.each([
    ['given to another tenant', `update desk.orders set tenant = 'acme'`, '(tenant: )'],
    [
      'given to a customer of another tenant',
      `update desk.orders set customer_id = 'c-124'`,
      '(reference: orders_tenant_customer_id_fkey)',
    ],
    ['laid open', 'alter table desk.orders disable row level security', 'must be owner'],
  ])('cannot be %s by SQL of a tool', async (_, statement, message) => {
    await expect(
      desk.gateway.within(callOf('globex'), (em) => em.execute(statement)),
    ).rejects.toThrow(message);
  });

  it('is protected as the gateway asks for', () => {
    expect(ROW_SECURITY).toEqual(desk.gateway.statements([Customer, Product, Order, Cart]));
  });
});

describe('a search by name', () => {
  it.each([
    ['john smith', ['John Smith']],
    ['SMITH', ['John Smith', 'Laura Smith']],
    ['smith, j', ['John Smith']],
    ['kaminski', ['Zoë Kamiński']],
    ['ohn', []],
    ['%', ['John Smith', 'Jane Doe', 'Laura Smith', 'Omar Haddad', 'Zoë Kamiński', 'Mary Jones']],
  ])('finds, for "%s", %j', async (query, names) => {
    const found = await search('acme', query);
    expect(found.map(({ name }) => name)).toEqual(names);
  });
});
