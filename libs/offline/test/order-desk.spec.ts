import { describe, expect, it } from '@jest/globals';
import { runLoop } from './loop.js';
import { orderDesk } from './order-desk.js';

const spend = ['crm__searchCustomers {"name":"John Smith"}', 'customer_c-123_getAverageSpend {}'];

describe('an order desk', () => {
  it('finds the customer, then follows the tools that came with it', async () => {
    const run = await runLoop("What is John Smith's average spend?", orderDesk);
    expect(run.calls).toEqual(spend);
    expect(run.text).toBe("John Smith's average spend is 450.00 EUR.");
  });

  it.each(['what is the average spend of john smith?', "what is john smith's average spend"])(
    'knows a name in lower case: %s',
    async (prompt) => {
      const run = await runLoop(prompt, orderDesk);
      expect(run.calls).toEqual([
        'crm__searchCustomers {"name":"john smith"}',
        'customer_c-123_getAverageSpend {}',
      ]);
      expect(run.text).toBe("John Smith's average spend is 450.00 EUR.");
    },
  );

  it('asks about each of two people', async () => {
    const run = await runLoop("What's the average spend of John Smith and Jane Doe?", orderDesk);
    expect(run.text).toBe(
      "John Smith's average spend is 450.00 EUR.\nJane Doe's average spend is 99.50 EUR.",
    );
    expect(run.steps).toBe(3);
  });

  it('answers from a field without another call', async () => {
    const run = await runLoop('What is the email of Jane Doe?', orderDesk);
    expect(run.calls).toEqual(['crm__searchCustomers {"name":"Jane Doe"}']);
    expect(run.text).toBe("Jane Doe's email is jane@example.com.");
  });

  it('takes no number that counts for a limit or an id', async () => {
    const run = await runLoop('Show the last 3 orders of John Smith', orderDesk);
    expect(run.calls).toEqual([
      'crm__searchCustomers {"name":"John Smith"}',
      'customer_c-123_getRecentOrders {}',
    ]);
    expect(run.text).toContain(
      'I found 2 recent orders for John Smith:\n- o-100: placed at 2026-01-02, status open',
    );
  });

  it('goes two levels deep to the latest order', async () => {
    const run = await runLoop("List the items of John Smith's last order", orderDesk);
    expect(run.calls.at(-1)).toBe('order_o-101_getItems {}');
    expect(run.text).toBe('I found 2 items for order o-101:\n- p-1: quantity 2\n- p-2: quantity 1');
  });

  it('reads each of all orders', async () => {
    const run = await runLoop('Give me the items of all orders of John Smith', orderDesk);
    expect(run.calls.slice(2)).toEqual(['order_o-100_getItems {}', 'order_o-101_getItems {}']);
  });

  it('cancels what it was told to', async () => {
    const run = await runLoop('Cancel order o-100', orderDesk);
    expect(run.calls).toEqual(['orders__getOrder {"orderId":"o-100"}', 'order_o-100_cancel {}']);
    expect(run.text).toMatch(/^Done: cancel order o-100\. Result: .*status cancelled/);
  });

  it('cancels two orders that were both named', async () => {
    const run = await runLoop('Cancel orders o-100 and o-101', orderDesk);
    expect(run.calls.slice(2)).toEqual(['order_o-100_cancel {}', 'order_o-101_cancel {}']);
  });

  it('says that it found no one', async () => {
    const run = await runLoop('What is the average spend of Peter Pan?', orderDesk);
    expect(run.calls).toEqual(['crm__searchCustomers {"name":"Peter Pan"}']);
    expect(run.text).toContain('I found no customers for Peter Pan.');
  });

  it('says that it has no tool for an order', async () => {
    const run = await runLoop('Delete order o-100', orderDesk);
    expect(run.calls).toEqual(['orders__getOrder {"orderId":"o-100"}']);
    expect(run.text).toContain('I found no tool to “delete”, so that was not done.');
  });

  it('reads no "her": it answers for each customer whose tools are there, by name', async () => {
    const { messages, tools } = await runLoop(
      'What is the average spend of John Smith and Jane Doe?',
      orderDesk.slice(0, 1),
    );
    const run = await runLoop('And what is her average spend?', tools, { messages });
    expect(run.text.split('\n')).toEqual(
      expect.arrayContaining([
        "John Smith's average spend is 450.00 EUR.",
        "Jane Doe's average spend is 99.50 EUR.",
      ]),
    );
    expect((await runLoop('And what is her average spend?', orderDesk)).text).toContain(
      'I found no tool that fits your words.',
    );
  });

  it('does not answer for another customer whose tools are still there', async () => {
    const { messages, tools } = await runLoop("What is John Smith's average spend?", orderDesk);
    const run = await runLoop("What is Jane Doe's average spend?", tools, { messages });
    expect(run.calls).toEqual([
      'crm__searchCustomers {"name":"Jane Doe"}',
      'customer_c-124_getAverageSpend {}',
    ]);
  });
});

describe('what is in a thing', () => {
  it.each([
    "What is in John Smith's last order?",
    'What’s in the latest order of John Smith?',
    'What was inside the last order of John Smith?',
  ])('is asked of its items: %s', async (prompt) => {
    const run = await runLoop(prompt, orderDesk);
    expect(run.calls.at(-1)).toBe('order_o-101_getItems {}');
  });

  it('is asked of one named by its id', async () => {
    const run = await runLoop('What is in o-100?', orderDesk);
    expect(run.calls).toEqual(['orders__getOrder {"orderId":"o-100"}', 'order_o-100_getItems {}']);
  });
});
