import { afterAll, describe, expect, it } from '@jest/globals';
import { callOf, closeOrderDesks, orderDesk } from './order-desk.js';
import { CartTools } from '../../src/carts/cart-tools.js';

const context = callOf('acme');
afterAll(closeOrderDesks);

describe('a cart', () => {
  it('adds quantities of the same product up', async () => {
    const cart = await (await orderDesk()).openCart();
    await cart.addItem('p-103', 2, context);
    const contents = await cart.addItem('p-103', 1, context);
    expect(contents).toMatchObject({
      lines: [{ productId: 'p-103', quantity: 3 }],
      total: { amount: '359.70', currency: 'EUR' },
    });
  });

  it('can be emptied', async () => {
    const cart = await (await orderDesk()).openCart();
    await cart.addItem('p-103', 2, context);
    expect((await cart.removeItem('p-103', context)).lines).toEqual([]);
    await expect(cart.removeItem('p-103', context)).rejects.toThrow(
      'There is no p-103 in this cart.',
    );
  });

  it('holds no more than there is', async () => {
    const cart = await (await orderDesk()).openCart();
    await cart.addItem('p-104', 2, context);
    await expect(cart.addItem('p-104', 2, context)).rejects.toThrow(
      'Only 3 of p-104 (Desk lamp) are in stock.',
    );
  });

  it('holds nothing that is not sold', async () => {
    const cart = await (await orderDesk()).openCart();
    await expect(cart.addItem('p-999', 1, context)).rejects.toThrow(
      'No product has the id "p-999".',
    );
  });

  it('becomes an order at the prices of the day', async () => {
    const desk = await orderDesk();
    const cart = await desk.openCart();
    await cart.addItem('p-104', 3, context);
    const order = await cart.checkout(context);
    expect(order).toMatchObject({
      id: 'o-1025',
      customerId: 'c-124',
      status: 'placed',
      placedOn: '2026-11-16',
    });
    expect(order.getTotal().amount).toBe('179.85');
    expect((await desk.product('acme', 'p-104')).inStock).toBe(0);
  });

  it('is checked out once, and then stays as it is', async () => {
    const cart = await (await orderDesk()).openCart();
    await cart.addItem('p-104', 1, context);
    const both = await Promise.allSettled([cart.checkout(context), cart.checkout(context)]);
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    await expect(cart.addItem('p-103', 1, context)).rejects.toThrow(
      'This cart has been checked out. Open a new one.',
    );
  });

  it('stays open when another was faster', async () => {
    const desk = await orderDesk();
    const [one, other] = [await desk.openCart(), await desk.openCart()];
    await one.addItem('p-104', 2, context);
    await other.addItem('p-104', 2, context);
    await one.checkout(context);
    await expect(other.checkout(context)).rejects.toThrow(
      'Only 1 of p-104 (Desk lamp) are in stock.',
    );
    await other.removeItem('p-104', context);
    expect((await other.addItem('p-104', 1, context)).lines).toHaveLength(1);
  });

  it('is not checked out empty', async () => {
    await expect((await (await orderDesk()).openCart()).checkout(context)).rejects.toThrow(
      'This cart is empty.',
    );
  });
});

describe('opening a cart for a customer', () => {
  it('puts the products in, or opens none', async () => {
    const desk = await orderDesk();
    const tools = new CartTools(desk.gateway);
    const lamps = { productId: 'p-104', quantity: 3 };
    await expect(
      tools.openCart({ customerId: 'c-123', items: [lamps, lamps] }, context),
    ).rejects.toThrow('Only 3 of p-104');
    const cart = await tools.openCart({ customerId: 'c-123', items: [lamps] }, context);
    expect([cart.id, (await cart.getContents(context)).total.amount]).toEqual(['cart-1', '179.85']);
  });

  it("is not done for another tenant's customer", async () => {
    const opened = new CartTools((await orderDesk()).gateway).openCart(
      { customerId: 'c-201', items: [] },
      context,
    );
    await expect(opened).rejects.toThrow('No customer has the id "c-201".');
  });
});
