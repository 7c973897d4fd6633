import { afterAll, describe, expect, it } from '@jest/globals';
import { OutboxMailer, receiptMail } from '../../src/orders/mailer.js';
import { monthsBefore } from '../../src/desk/clock.js';
import { callOf, closeOrderDesks, orderDesk } from './order-desk.js';

const context = callOf('acme');
afterAll(closeOrderDesks);

describe("a customer's average spend", () => {
  it('counts 12 months and no cancelled order', async () => {
    const john = await (await orderDesk()).customer('acme', 'c-123');
    expect(await john.getAverageSpend(context)).toMatchObject({
      amount: '472.19',
      currency: 'EUR',
    });
  });

  it('is nothing for who never ordered', async () => {
    const zoe = await (await orderDesk()).customer('acme', 'c-127');
    expect((await zoe.getAverageSpend(context)).amount).toBe('0.00');
  });
});

describe("a customer's recent orders", () => {
  it('come with the newest first', async () => {
    const john = await (await orderDesk()).customer('acme', 'c-123');
    expect((await john.getRecentOrders(3, context)).map(({ id }) => id)).toEqual([
      'o-1024',
      'o-1021',
      'o-1018',
    ]);
  });
});

describe('cancelling an order', () => {
  it('puts its articles back in stock', async () => {
    const desk = await orderDesk();
    const cancelled = await (await desk.order('acme', 'o-1024')).cancel(context);
    expect(cancelled.status).toBe('cancelled');
    expect((await desk.product('acme', 'p-100')).inStock).toBe(7);
  });

  it('is refused when it has been shipped', async () => {
    const shipped = await (await orderDesk()).order('acme', 'o-1021');
    await expect(shipped.cancel(context)).rejects.toThrow(
      'Order o-1021 has been shipped and cannot be cancelled. Offer a return instead.',
    );
  });

  it('happens once, also for who holds an old copy', async () => {
    const desk = await orderDesk();
    const [one, other] = [await desk.order('acme', 'o-1024'), await desk.order('acme', 'o-1024')];
    const both = await Promise.allSettled([one.cancel(context), other.cancel(context)]);
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect((await desk.product('acme', 'p-100')).inStock).toBe(7);
  });
});

describe('the customer of an order', () => {
  it('is the one of the same tenant', async () => {
    const customer = await (
      await (await orderDesk()).order('globex', 'o-1001')
    ).getCustomer(callOf('globex'));
    expect(customer.name).toBe('Priya Natarajan');
  });
});

describe('a receipt', () => {
  it('names the articles and the total', async () => {
    const order = await (await orderDesk()).order('acme', 'o-1021');
    const text = ['Thank you!', '', '5 x Desk lamp', '6 x Cable tray', 'Total: 446.75 EUR'].join(
      '\n',
    );
    expect(receiptMail(order, 'john@example.com', 'Thank you!')).toEqual({
      to: 'john@example.com',
      subject: 'Receipt for order o-1021',
      text,
    });
  });

  it('is mailed once per key', async () => {
    const mailer = new OutboxMailer();
    const mail = { to: 'a@example.com', subject: 's', text: 't' };
    expect([
      await mailer.send(mail, 'k1'),
      await mailer.send(mail, 'k1'),
      await mailer.send(mail, 'k2'),
    ]).toEqual(['m-1', 'm-1', 'm-2']);
    expect(mailer.mails).toHaveLength(2);
  });
});

describe('months before a day', () => {
  it('end where the month does', () => {
    expect([
      monthsBefore(new Date('2026-03-31'), 1),
      monthsBefore(new Date('2024-02-29'), 12),
    ]).toEqual(['2026-02-28', '2023-02-28']);
  });
});
