import { afterAll, describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import type { PendingView } from '@toolloop/core/loop';
import { Database } from '@toolloop/durable';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { OutboxMailer } from '../../src/orders/mailer.js';
import {
  ask,
  closeDesks,
  eventsIn,
  headersOf,
  ofType,
  serve,
  type ServedDesk,
} from './served-desk.js';

afterAll(closeDesks);

/** Every row of every table of the desk. */
async function dumpOf(desk: ServedDesk): Promise<readonly unknown[]> {
  const database = desk.app.get(Database);
  const tables = ['carts', 'customers', 'orders', 'products'];
  return Promise.all(
    tables.map((table) =>
      database.query(`select to_json(t)::text as row from desk.${table} t order by 1`),
    ),
  );
}

async function rehearsed(script: readonly ScriptedTurn[], user = 'alice') {
  const desk = await serve({ model: new ScriptedModel(script) });
  const before = await dumpOf(desk);
  const events = eventsIn(
    await (await ask(desk, user, { message: 'Go on.', rehearse: true })).text(),
  );
  const [asked] = ofType(events, 'pending-request');
  const { runId = '', rehearsalId = '' } = asked?.kind === 'rehearsal' ? asked.request : {};
  const answer = async (
    who: string,
    decision = 'approve',
  ): Promise<[number, { code?: string }]> => {
    const response = await ask(desk, who, { rehearsalId, decision }, `/runs/${runId}/answer`);
    return [response.status, (await response.json()) as { code?: string }];
  };
  const resume = async (): Promise<readonly LoopEvent[]> =>
    eventsIn(await (await ask(desk, user, {}, `/runs/${runId}/resume`)).text());
  const pending = async (who: string, query = ''): Promise<readonly PendingView[]> =>
    (await (
      await fetch(`${desk.url}/pending${query}`, { headers: headersOf(who) })
    ).json()) as PendingView[];
  return { desk, before, events, rehearsalId, answer, resume, pending };
}

const end = (events: readonly LoopEvent[]) => ofType(events, 'run-end').at(-1);

const ORDERS = [
  calls(call('carts__openCart', { customerId: 'c-124' })),
  calls(call('cart_cart-1_addItem', { productId: 'p-104', quantity: 2 })),
  calls(call('cart_cart-1_checkout', {})),
  calls(call('order_o-1025_getTotal', {})),
  text('Ordered.'),
];

describe('a rehearsal over HTTP', () => {
  it('uses the tools of a cart and of an order that it has made itself, changes no row, and makes each call once when it is approved', async () => {
    const { desk, before, events, answer, resume } = await rehearsed(ORDERS);
    expect(
      ofType(events, 'tool-result').map(({ record: { status, rehearsal, result } }) => [
        status,
        rehearsal,
        result,
      ]),
    ).toMatchObject([
      ['succeeded', 'rehearsed', { id: 'cart-1' }],
      ['succeeded', 'rehearsed', { total: { amount: '119.90' } }],
      ['succeeded', 'rehearsed', { id: 'o-1025', status: 'placed' }],
      ['succeeded', 'rehearsed', { amount: '119.90' }],
    ]);
    expect(await dumpOf(desk)).toEqual(before);
    expect((await answer('alice'))[0]).toBe(200);
    const more = await resume();
    expect(end(more)).toMatchObject({ finishReason: 'stop', rehearsal: { status: 'performed' } });
    const orders = await desk.app
      .get(Database)
      .query(`select id from desk.orders where tenant = 'acme' and id > 'o-1024'`);
    expect(orders).toEqual([{ id: 'o-1025' }]);
    expect(await answer('alice')).toMatchObject([409, { code: 'already_answered' }]);
  });

  it('shows the manager what leaves the desk, and mails nothing before she says yes', async () => {
    const script = [calls(call('orders__sendReceipt', { orderId: 'o-1021' })), text('Mailed.')];
    const { desk, answer, resume, pending } = await rehearsed(script);
    const { mails } = desk.app.get(OutboxMailer);
    expect(await pending('mia', '?kind=rehearsal')).toMatchObject([
      {
        kind: 'rehearsal',
        request: { calls: [{ declaredId: 'orders__sendReceipt', as: 'previewed' }] },
      },
    ]);
    expect([await answer('alice'), mails]).toMatchObject([[403, { code: 'not_permitted' }], []]);
    expect((await answer('mia'))[0]).toBe(200);
    expect(end(await resume())?.rehearsal?.status).toBe('performed');
    expect(desk.app.get(OutboxMailer).mails).toHaveLength(1);
  });

  it('is not there for another tenant, and is found by its kind and its run alone', async () => {
    const { answer, pending, events, rehearsalId } = await rehearsed(ORDERS);
    expect([await pending('bob'), await answer('bob')]).toMatchObject([
      [],
      [404, { code: 'not_found' }],
    ]);
    const ids = async (query: string) => (await pending('alice', query)).map(({ id }) => id);
    expect(await ids('')).toEqual([rehearsalId]);
    expect([await ids('?kind=approval'), await ids('?runId=another')]).toEqual([[], []]);
    expect(await ids(`?kind=rehearsal&runId=${events[0]?.runId}`)).toEqual([rehearsalId]);
  });

  it.each([
    ['/chat', { message: 'Go on.', rehearse: 'yes' }],
    ['/runs', { message: 'Go on.', rehearse: 1 }],
  ])(
    'is refused at %s where a client does not say clearly whether it wants one',
    async (path, body) => {
      const desk = await serve({ model: new ScriptedModel([]) });
      const response = await ask(desk, 'alice', body, path);
      expect([response.status, await response.text()]).toEqual([
        400,
        expect.stringContaining('rehearse must be true or false'),
      ]);
    },
  );

  it('names the kinds that there are to who asks for another', async () => {
    const desk = await serve({ model: new ScriptedModel([]) });
    const response = await fetch(`${desk.url}/pending?kind=rehearsals`, {
      headers: headersOf('alice'),
    });
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('kind must be one of approval'),
    ]);
  });
});
