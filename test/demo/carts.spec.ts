import { describe, expect, it } from '@jest/globals';
import { customerOf, orderDesk } from './order-desk.js';
import { CartTools } from '../../src/carts/cart-tools.js';
import type { Cart, EntityFactory } from '../../src/desk/entities.js';
import type { ToolCallContext } from '@toolloop/core';

async function openCart(desk: EntityFactory): Promise<Cart> {
  return (await customerOf(desk, 'acme', 'c-124')).openCart();
}

describe('a cart', () => {
  it('adds quantities of the same product up', async () => {
    const cart = await openCart(orderDesk());
    await cart.addItem('p-103', 2);
    const contents = await cart.addItem('p-103', 1);
    expect(contents).toMatchObject({ lines: [{ productId: 'p-103', quantity: 3 }], total: { amount: '359.70', currency: 'EUR' } });
  });

  it('can be emptied', async () => {
    const cart = await openCart(orderDesk());
    await cart.addItem('p-103', 2);
    expect((await cart.removeItem('p-103')).lines).toEqual([]);
    await expect(cart.removeItem('p-103')).rejects.toThrow('There is no p-103 in this cart.');
  });

  it('holds no more than there is', async () => {
    const cart = await openCart(orderDesk());
    await cart.addItem('p-104', 2);
    await expect(cart.addItem('p-104', 2)).rejects.toThrow('Only 3 of p-104 (Desk lamp) are in stock.');
  });

  it('holds nothing that is not sold', async () => {
    const cart = await openCart(orderDesk());
    await expect(cart.addItem('p-999', 1)).rejects.toThrow('No product has the id "p-999".');
  });

  it('becomes an order at the prices of the day', async () => {
    const desk = orderDesk();
    const cart = await openCart(desk);
    await cart.addItem('p-104', 3);
    const order = await cart.checkout();
    expect(order).toMatchObject({ id: 'o-1025', customerId: 'c-124', status: 'placed', placedOn: '2026-11-16' });
    expect(order.getTotal().amount).toBe('179.85');
    expect((await desk.products.get('acme', 'p-104')).inStock).toBe(0);
  });

  it('is checked out once, and then stays as it is', async () => {
    const cart = await openCart(orderDesk());
    await cart.addItem('p-104', 1);
    const both = await Promise.allSettled([cart.checkout(), cart.checkout()]);
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    await expect(cart.addItem('p-103', 1)).rejects.toThrow('This cart has been checked out. Open a new one.');
  });

  it('stays open when somebody else was faster', async () => {
    const desk = orderDesk();
    const [one, other] = [await openCart(desk), await openCart(desk)];
    await one.addItem('p-104', 2);
    await other.addItem('p-104', 2);
    await one.checkout();
    await expect(other.checkout()).rejects.toThrow('Only 1 of p-104 (Desk lamp) are in stock.');
    await other.removeItem('p-104');
    expect((await other.addItem('p-104', 1)).lines).toHaveLength(1);
  });

  it('is not checked out empty', async () => {
    await expect((await openCart(orderDesk())).checkout()).rejects.toThrow('This cart is empty.');
  });
});

describe('opening a cart for a customer', () => {
  const context = { tenant: 'acme' } as ToolCallContext;

  it('puts the products in, or opens none', async () => {
    const desk = orderDesk();
    const tools = new CartTools(desk);
    const lamps = { productId: 'p-104', quantity: 3 };
    await expect(tools.openCart({ customerId: 'c-123', items: [lamps, lamps] }, context)).rejects.toThrow('Only 3 of p-104');
    const cart = await tools.openCart({ customerId: 'c-123', items: [lamps] }, context);
    expect([cart.id, (await cart.getContents()).total.amount]).toEqual(['cart-1', '179.85']);
  });

  it("is not done for another tenant's customer", async () => {
    const opened = new CartTools(orderDesk()).openCart({ customerId: 'c-201', items: [] }, context);
    await expect(opened).rejects.toThrow('No customer has the id "c-201".');
  });
});
