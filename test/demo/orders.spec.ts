import { describe, expect, it } from '@jest/globals';
import { OrderPage } from '../../src/orders/order-tools.js';
import { OrderStatus } from '../../src/desk/records.js';
import { OutboxMailer, receiptMail } from '../../src/orders/mailer.js';
import { monthsBefore } from '../../src/desk/clock.js';
import { customerOf, orderDesk, orderOf } from './order-desk.js';

describe("a customer's average spend", () => {
  it('counts 12 months and no cancelled order', async () => {
    const john = await customerOf(orderDesk(), 'acme', 'c-123');
    expect(await john.getAverageSpend()).toMatchObject({ amount: '472.19', currency: 'EUR' });
  });

  it('is the same on any day', async () => {
    const john = await customerOf(orderDesk('2031-03-31T23:59:59Z'), 'acme', 'c-123');
    expect((await john.getAverageSpend()).amount).toBe('472.19');
  });

  it('is nothing for who never ordered', async () => {
    const zoe = await customerOf(orderDesk(), 'acme', 'c-127');
    expect((await zoe.getAverageSpend()).amount).toBe('0.00');
  });
});

describe("a customer's recent orders", () => {
  it('come with the newest first', async () => {
    const john = await customerOf(orderDesk(), 'acme', 'c-123');
    expect((await john.getRecentOrders(3)).map(({ id }) => id)).toEqual(['o-1024', 'o-1021', 'o-1018']);
  });
});

describe('a list of orders', () => {
  it('is filtered by status and period', async () => {
    const { orders } = orderDesk();
    const found = await orders.list('acme', { status: OrderStatus.Placed, from: '2026-11-12', to: '2026-11-14' });
    expect(found.map(({ id }) => id)).toEqual(['o-1024']);
  });

  it('is cut into pages', async () => {
    const desk = orderDesk();
    const all = (await desk.orders.list('acme', {})).map((record) => desk.order('acme', record));
    const last = new OrderPage(all, { page: 3, pageSize: 5 });
    expect([last.total, last.pages, last.orders.map(({ id }) => id)]).toEqual([15, 3, ['o-1009', 'o-1005', 'o-1004', 'o-1002', 'o-1001']]);
  });
});

describe('cancelling an order', () => {
  it('puts its articles back in stock', async () => {
    const desk = orderDesk();
    const cancelled = await (await orderOf(desk, 'acme', 'o-1024')).cancel();
    expect(cancelled.status).toBe('cancelled');
    expect((await desk.products.get('acme', 'p-100')).inStock).toBe(7);
  });

  it('is refused when it has been shipped', async () => {
    const shipped = await orderOf(orderDesk(), 'acme', 'o-1021');
    await expect(shipped.cancel()).rejects.toThrow('Order o-1021 has been shipped and cannot be cancelled. Offer a return instead.');
  });

  it('happens once, also for who holds an old copy', async () => {
    const desk = orderDesk();
    const [one, other] = [await orderOf(desk, 'acme', 'o-1024'), await orderOf(desk, 'acme', 'o-1024')];
    const both = await Promise.allSettled([one.cancel(), other.cancel()]);
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect((await desk.products.get('acme', 'p-100')).inStock).toBe(7);
  });
});

describe('the customer of an order', () => {
  it('is the one of the same tenant', async () => {
    const customer = await (await orderOf(orderDesk(), 'globex', 'o-1001')).getCustomer();
    expect(customer.name).toBe('Priya Natarajan');
  });
});

describe('a receipt', () => {
  it('names the articles and the total', async () => {
    const order = await orderDesk().orders.find('acme', 'o-1021');
    const text = ['Thank you!', '', '5 x Desk lamp', '6 x Cable tray', 'Total: 446.75 EUR'].join('\n');
    expect(order && receiptMail(order, 'john@example.com', 'Thank you!')).toEqual({
      to: 'john@example.com',
      subject: 'Receipt for order o-1021',
      text,
    });
  });

  it('is mailed once per key', async () => {
    const mailer = new OutboxMailer();
    const mail = { to: 'a@example.com', subject: 's', text: 't' };
    expect([await mailer.send(mail, 'k1'), await mailer.send(mail, 'k1'), await mailer.send(mail, 'k2')]).toEqual(['m-1', 'm-1', 'm-2']);
    expect(mailer.mails).toHaveLength(2);
  });
});

describe('months before a day', () => {
  it('end where the month does', () => {
    expect([monthsBefore(new Date('2026-03-31'), 1), monthsBefore(new Date('2024-02-29'), 12)]).toEqual(['2026-02-28', '2023-02-28']);
  });
});
