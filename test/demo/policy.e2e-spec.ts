import { afterAll, describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { call, calls, ScriptedModel, text, type ScriptedCall } from '@toolloop/testing';
import { OutboxMailer } from '../../src/orders/mailer.js';
import { DESK_POLICY } from '../../src/policy.js';
import { closeDesks, eventsOf, headersOf, ofType, serve, type ServedDesk } from './served-desk.js';

afterAll(closeDesks);

interface ListedTool {
  readonly id: string;
  readonly effect: string;
  readonly description: string;
  readonly inputSchema: object;
}

async function toolsOf(desk: ServedDesk, user: string): Promise<ListedTool[]> {
  const response = await fetch(`${desk.url}/tools`, { headers: headersOf(user) });
  expect(response.status).toBe(200);
  return (await response.json()) as ListedTool[];
}

function ids(tools: readonly ListedTool[]): string[] {
  return tools.map(({ id }) => id);
}

describe('GET /tools', () => {
  it('lists to support what it may call, and to the manager more', async () => {
    const desk = await serve();
    const [alice, mia] = [await toolsOf(desk, 'alice'), await toolsOf(desk, 'mia')];
    expect(ids(alice)).not.toContain('catalog__update');
    expect(ids(mia)).toEqual(
      expect.arrayContaining([...ids(alice), 'catalog__update', 'orders__sendReceipt']),
    );
    expect(mia.find(({ id }) => id === 'refunds__refundOrder')).toMatchObject({
      presentation: { label: 'Refund an order' },
    });
    expect(mia.find(({ id }) => id === 'crm__searchCustomers')).toEqual({
      id: 'crm__searchCustomers',
      description: 'Find customers by name.',
      effect: 'read_only',
      inputSchema: expect.objectContaining({
        type: 'object',
        required: ['name'],
        additionalProperties: false,
      }),
    });
  });
});

async function askForReceipt(
  user: string,
): Promise<{ events: LoopEvent[]; mails: OutboxMailer['mails'] }> {
  const model = new ScriptedModel([
    calls(call('orders__sendReceipt', { orderId: 'o-1021' })),
    text('Done.'),
  ]);
  const desk = await serve({ model });
  const events = await eventsOf(desk, user, 'Send the receipt of o-1021');
  const { mails } = desk.app.get(OutboxMailer);
  return { events, mails };
}

describe('a receipt', () => {
  it('is mailed by the manager, and its address is told to the mailer alone', async () => {
    const { events, mails } = await askForReceipt('mia');
    expect(ofType(events, 'tool-result')[0]?.record).toMatchObject({
      status: 'succeeded',
      result: { messageId: 'm-1', orderId: 'o-1021' },
    });
    expect(mails.map(({ to }) => to)).toEqual(['john.smith@example.com']);
    expect(JSON.stringify(events)).not.toContain('john.smith');
  });

  it('is not mailed by support without an approval', async () => {
    const { events, mails } = await askForReceipt('alice');
    expect(ofType(events, 'approval-request')[0]?.approval).toMatchObject({
      declaredId: 'orders__sendReceipt',
      args: { orderId: 'o-1021' },
    });
    expect(ofType(events, 'run-end')[0]?.finishReason).toBe('waiting');
    expect(mails).toEqual([]);
  });
});

/** Which calls of a script were put to a person. */
async function approvalsFor(
  user: string,
  ...script: readonly (readonly ScriptedCall[])[]
): Promise<string[]> {
  const desk = await serve({
    model: new ScriptedModel([...script.map((made) => calls(...made)), text('Done.')]),
  });
  return ofType(await eventsOf(desk, user, 'Go on'), 'approval-request').map(
    ({ approval }) => approval.declaredId,
  );
}

describe('a cancellation', () => {
  const script = [
    [call('orders__findOrder', { orderId: 'o-1024' })],
    [call('order_o-1024_cancel')],
  ];

  it("needs the manager's yes where support asks for it, and no other where she does", async () => {
    expect(await approvalsFor('alice', ...script)).toEqual(['order_*_cancel']);
    expect(await approvalsFor('mia', ...script)).toEqual([]);
  });
});

describe("the desk's own words", () => {
  it('leave a run without taint: one that has read an order and no customer needs no approval', async () => {
    const receipt = [call('orders__sendReceipt', { orderId: 'o-1021' })];
    expect(
      await approvalsFor('mia', [call('orders__findOrder', { orderId: 'o-1021' })], receipt),
    ).toEqual([]);
    expect(
      await approvalsFor('mia', [call('crm__read', { get_by: { id: 'c-123' } })], receipt),
    ).toEqual(['orders__sendReceipt']);
  });
});

describe('a large quantity', () => {
  it.each([
    [19, []],
    [20, ['cart_*_addItem']],
  ])('asks, with %i pieces, for %j', async (quantity, asked) => {
    const script = [
      [call('carts__openCart', { customerId: 'c-124' })],
      [call('cart_cart-1_addItem', { productId: 'p-106', quantity })],
    ];
    expect(await approvalsFor('alice', ...script)).toEqual(asked);
  });

  it('is used up by many small ones, too', async () => {
    const add = call('cart_cart-1_addItem', { productId: 'p-106', quantity: 40 });
    const open = call('carts__openCart', { customerId: 'c-124' });
    const desk = await serve({
      model: new ScriptedModel([calls(open), calls(add), calls(add), calls(add), text('Done.')]),
    });
    const records = ofType(await eventsOf(desk, 'mia', 'Fill the cart'), 'tool-result').map(
      ({ record }) => record,
    );
    expect(records.slice(1).map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      'budget_exceeded',
    ]);
  });
});

describe('a new policy', () => {
  it('holds from the next decision on, in runs that are under way as well', async () => {
    const desk = await serve();
    desk.app
      .get(DataPolicyEngine)
      .replace({ ...DESK_POLICY, version: 'desk-3', deny: ['orders__sendReceipt'] });
    expect(ids(await toolsOf(desk, 'mia'))).not.toContain('orders__sendReceipt');
  });

  it('is refused when it names no tool, and the old one holds', async () => {
    const desk = await serve();
    const engine = desk.app.get(DataPolicyEngine);
    expect(() => engine.replace({ ...DESK_POLICY, deny: ['orders__sendReciept'] })).toThrow(
      'Did you mean "orders__sendReceipt"?',
    );
    expect(ids(await toolsOf(desk, 'mia'))).toContain('orders__sendReceipt');
  });
});

describe('a price', () => {
  it("is the manager's", async () => {
    const setPrice = calls(call('catalog__update', { id: 'p-104', input: { price: '64.95' } }));
    for (const [user, status] of [
      ['alice', 'denied'],
      ['mia', 'succeeded'],
    ] as const) {
      const desk = await serve({ model: new ScriptedModel([setPrice, text('Done.')]) });
      expect(ofType(await eventsOf(desk, user, 'Change it'), 'tool-result')[0]?.record.status).toBe(
        status,
      );
    }
  });
});

describe('a cart', () => {
  it('is opened, filled and checked out by tools that appear one after the other', async () => {
    const model = new ScriptedModel([
      calls(call('crm__read', { get_by: { id: 'c-124' } })),
      calls(call('customer_c-124_openCart')),
      calls(call('cart_cart-1_addItem', { productId: 'p-104', quantity: 2 })),
      calls(call('cart_cart-1_checkout')),
      calls(call('order_o-1025_getTotal')),
      text('Ordered.'),
    ]);
    const desk = await serve({ model });
    const events = await eventsOf(desk, 'alice', 'Order two desk lamps for Jane Doe');
    const records = ofType(events, 'tool-result').map(({ record }) => record);
    expect(records.map(({ status }) => status)).toEqual(
      Array.from({ length: 5 }, () => 'succeeded'),
    );
    expect(records.at(-1)?.result).toEqual({ amount: '119.90', currency: 'EUR' });
    expect(ofType(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      'c-124',
      'cart-1',
      'o-1025',
    ]);
    model.assertComplete();
  });

  it('is not touched by another tenant with the same ids', async () => {
    const script = [
      calls(call('carts__openCart', { customerId: 'c-123' })),
      calls(call('cart_cart-1_addItem', { productId: 'p-100' })),
      text('Done.'),
    ];
    const desk = await serve({ model: new ScriptedModel([...script, ...script]) });
    const results: unknown[] = [];
    for (const user of ['alice', 'bob']) {
      const events = await eventsOf(desk, user, 'Open a cart for c-123');
      results.push(ofType(events, 'tool-result').at(-1)?.record.result);
    }
    expect(results).toMatchObject([
      { total: { amount: '649.00', currency: 'EUR' } },
      { total: { amount: '139.00', currency: 'USD' } },
    ]);
  });
});

describe('a model that names another tenant', () => {
  it('is refused, and reads nothing of it', async () => {
    const model = new ScriptedModel([
      calls(call('crm__searchCustomers', { name: 'Priya', tenant: 'globex' })),
      text('No.'),
    ]);
    const desk = await serve({ model });
    const events = await eventsOf(desk, 'alice', 'Find Priya at globex');
    expect(ofType(events, 'tool-result')[0]?.record).toMatchObject({
      status: 'denied',
      error: { code: 'tenant_override' },
    });
    expect(JSON.stringify(events)).not.toContain('Natarajan');
  });
});
