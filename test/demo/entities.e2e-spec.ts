import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import type { LoopEvent } from '@toolloop/core';
import { Database } from '@toolloop/durable';
import {
  ask,
  closeDesks,
  eventsIn,
  eventsOf,
  ofType,
  serve,
  type ServedDesk,
} from './served-desk.js';

afterAll(closeDesks);

const COMPARE = 'Compare the average spend of John Smith and Mary Jones';
const LAST_ORDER = 'What is in the last order of John Smith?';

const called = (events: readonly LoopEvent[]) =>
  ofType(events, 'tool-result').map(({ record }) => record.id);
const answer = (events: readonly LoopEvent[]) => ofType(events, 'run-end')[0]?.text;

describe('the order desk, answered by the offline model through the tools of entities', () => {
  let desk: ServedDesk;
  beforeAll(async () => {
    desk = await serve();
  });

  it('compares two customers, each by a tool of their own', async () => {
    const events = await eventsOf(desk, 'alice', COMPARE);
    expect(called(events)).toEqual([
      'crm__searchCustomers',
      'crm__searchCustomers',
      'customer_c-123_getAverageSpend',
      'customer_c-128_getAverageSpend',
    ]);
    expect(answer(events)).toBe(
      "John Smith's average spend is 472.19 EUR.\nMary Jones's average spend is 165.54 EUR.",
    );
  });

  it('goes from a customer to their last order to what is in it', async () => {
    const events = await eventsOf(desk, 'alice', LAST_ORDER);
    expect(called(events)).toEqual([
      'crm__searchCustomers',
      'customer_c-123_getRecentOrders',
      'order_o-1024_getLines',
    ]);
    expect(ofType(events, 'tool-result').map(({ record }) => record.entity?.depth)).toEqual([
      undefined,
      1,
      2,
    ]);
    expect(answer(events)).toContain('Walnut desk (p-100): quantity 1, unit price 649.00 EUR');
  });

  it.each([COMPARE, LAST_ORDER])('tells the other tenant nothing of it: %s', async (question) => {
    const stream = await (await ask(desk, 'bob', { message: question })).text();
    const events = eventsIn(stream);
    expect(new Set(called(events))).toEqual(new Set(['crm__searchCustomers']));
    expect(ofType(events, 'tools-injected')).toEqual([]);
    expect(answer(events)).toContain('I found no customers for John Smith.');
    expect(stream).not.toMatch(/472\.19|165\.54|customer_|order_|Walnut|Dublin/);
  });

  it('answers both at once, each from their own', async () => {
    const [alice, bob] = await Promise.all([
      eventsOf(desk, 'alice', 'What is in order o-1004?'),
      eventsOf(desk, 'bob', 'What is in order o-1004?'),
    ]);
    expect([answer(alice), answer(bob)]).toEqual([
      expect.stringContaining('Task chair'),
      expect.stringContaining('Bench vise'),
    ]);
    expect(answer(alice)).not.toContain('Bench vise');
  });
});

const GOODBYE_MARY = [
  `delete from desk.orders where tenant = 'acme' and customer_id = 'c-128'`,
  `delete from desk.customers where tenant = 'acme' and id = 'c-128'`,
];

describe('an entity of the desk', () => {
  it('is not called when it is gone by then', async () => {
    const turns: ScriptedTurn[] = [
      calls(call('crm__searchCustomers', { name: 'Mary Jones' })),
      async () => {
        for (const statement of GOODBYE_MARY) await desk.app.get(Database).query(statement);
        return calls(call('customer_c-128_getAverageSpend'));
      },
      text('Gone.'),
    ];
    const desk = await serve({ model: new ScriptedModel(turns) });
    const [, gone] = ofType(await eventsOf(desk, 'alice', COMPARE), 'tool-result');
    expect(gone?.record).toMatchObject({ status: 'failed', error: { code: 'tool_gone' } });
  });

  it('is the one it is when its tool is called', async () => {
    const turns: ScriptedTurn[] = [
      calls(call('orders__findOrder', { orderId: 'o-1024' })),
      async () => {
        await desk.app
          .get(Database)
          .query(`update desk.orders set total = 0 where tenant = 'acme' and id = 'o-1024'`);
        return calls(call('order_o-1024_getTotal'));
      },
      text('So much.'),
    ];
    const desk = await serve({ model: new ScriptedModel(turns) });
    const [, total] = ofType(await eventsOf(desk, 'alice', 'Total?'), 'tool-result');
    expect(total?.record.result).toMatchObject({ amount: '0.00' });
  });

  it('has no tool for the other tenant, whatever its id', async () => {
    const turns = [
      calls(call('crm__read', { get_by: { id: 'c-123' } })),
      calls(call('customer_c-201_getAverageSpend')),
      text('No.'),
    ];
    const desk = await serve({ model: new ScriptedModel(turns) });
    const events = await eventsOf(desk, 'alice', 'Spy');
    expect(ofType(events, 'tool-result')[1]?.record).toMatchObject({
      status: 'failed',
      error: { code: 'unknown_tool' },
    });
  });
});
