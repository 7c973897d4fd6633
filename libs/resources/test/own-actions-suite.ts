import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { LlmTool, type ToolCallContext, ToolContext, ToolParam } from '@toolloop/core';
import { ResourceGateway, SqlResourceGateway, ToolResource } from '@toolloop/resources';
import { Exclude, Expose, Type } from 'class-transformer';
import type { EntityManager } from 'typeorm';
import { Customer, CustomerTools, Order, seed, Shop, textOf } from './shop.js';
import type { Storing } from './shop-storage.js';

/** The finds of an ORM's entity manager, in the tenant acme. */
export interface Finds {
  order(em: unknown): Promise<Order>;
  orderWithCustomer(em: unknown): Promise<Order>;
  orders(em: unknown): Promise<readonly Order[]>;
  customer(em: unknown): Promise<Customer>;
  /** Writes a note to an order. */
  write(em: unknown): Promise<unknown>;
}

export const byMikroOrm: Finds = {
  order: (em) => (em as SqlEntityManager).findOneOrFail(Order, { number: 'o-2' }),
  orderWithCustomer: (em) =>
    (em as SqlEntityManager).findOneOrFail(
      Order,
      { number: 'o-2' },
      { populate: ['customer'] as never },
    ),
  orders: (em) => (em as SqlEntityManager).find(Order, {}, { orderBy: { id: 'asc' } }),
  customer: (em) => (em as SqlEntityManager).findOneOrFail(Customer, { id: 1 }),
  write: async (em) => {
    const order = await byMikroOrm.order(em);
    order.note = 'written';
    await (em as SqlEntityManager).flush();
  },
};

export const byTypeOrm: Finds = {
  order: (em) => (em as EntityManager).findOneByOrFail(Order, { number: 'o-2' }),
  orderWithCustomer: (em) =>
    (em as EntityManager).findOneOrFail(Order, {
      where: { number: 'o-2' },
      relations: { customer: true },
    }),
  orders: (em) => (em as EntityManager).find(Order, { order: { id: 'ASC' } }),
  customer: (em) => (em as EntityManager).findOneByOrFail(Customer, { id: 1 }),
  write: (em) => (em as EntityManager).update(Order, { number: 'o-2' }, { note: 'written' }),
};

/** A result that has a row as a part. */
class Receipt {
  @Expose() @Type(() => Order) order!: Order;
  @Expose() words!: string;
  hidden = 'hidden words';
}

/** A class that exposes nothing. */
class Bare {
  readonly words = 'said';
  @Exclude() readonly secret = 'kept to itself';
}

/** What a method returns of its work, by the name of the case. */
type Returns = (finds: Finds, em: unknown) => Promise<unknown>;

function receiptOf(order: Order): Receipt {
  return Object.assign(new Receipt(), { order, words: 'thanks' });
}

const RETURNS: Readonly<Record<string, Returns>> = {
  row: (finds, em) => finds.order(em),
  rowWithRelation: (finds, em) => finds.orderWithCustomer(em),
  rowWithCollection: (finds, em) => finds.customer(em),
  list: (finds, em) => finds.orders(em),
  set: async (finds, em) => new Set(await finds.orders(em)),
  nested: async (finds, em) => receiptOf(await finds.order(em)),
  written: async (finds, em) => {
    await finds.write(em);
    return finds.order(em);
  },
  bare: () => Promise.resolve(new Bare()),
  plain: async (finds, em) => ({
    id: (await finds.order(em)).id,
    at: new Date(0),
    big: 2n ** 60n,
    map: new Map([['a', 1]]),
    url: new URL('https://a.example/b'),
  }),
  inPlain: async (finds, em) => ({ row: await finds.order(em) }),
  nothing: () => Promise.resolve(),
  none: () => Promise.resolve(null),
  stream: async (finds, em) => {
    await finds.write(em);
    return new Blob(['x']).stream();
  },
  circle: async (finds, em) => {
    await finds.write(em);
    const circle: { itself?: unknown } = {};
    circle.itself = circle;
    return circle;
  },
};

const PAID = {
  id: 2,
  number: 'o-2',
  total: '20.00',
  trackingId: '1152921504606846976',
  shippedAt: null,
};
const ANN = { id: 1, name: 'Ann of acme', email: 'ann@example.com', city: 'Bath' };

const CASE = { description: 'The case.', type: 'string' } as const;

/** Actions of an application that write, and return what they have written. */
function ownTools(finds: Finds) {
  @Injectable()
  @ToolResource(Order, { namespace: 'own', actions: ['read'] })
  class OwnTools {
    constructor(private readonly gateway: ResourceGateway) {}

    @LlmTool({ description: 'Returns a row.', effect: 'state_change', output: Order })
    row(
      @ToolParam('name', CASE) name: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return this.work(name, context);
    }

    @LlmTool({
      description: 'Returns a row with a collection.',
      effect: 'state_change',
      output: Customer,
    })
    customer(
      @ToolParam('name', CASE) name: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return this.work(name, context);
    }

    @LlmTool({ description: 'Returns rows.', effect: 'state_change', output: [Order] })
    rows(
      @ToolParam('name', CASE) name: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return this.work(name, context);
    }

    @LlmTool({ description: 'Returns a receipt.', effect: 'state_change', output: Receipt })
    receipt(
      @ToolParam('name', CASE) name: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return this.work(name, context);
    }

    @LlmTool({
      description: 'Returns some fields.',
      effect: 'state_change',
      reveal: ['id', 'number', 'words', 'margin', 'secret'],
    })
    some(
      @ToolParam('name', CASE) name: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return this.work(name, context);
    }

    @LlmTool({ description: 'Returns anything.', effect: 'state_change', reveal: 'all' })
    anything(
      @ToolParam('name', CASE) name: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return this.work(name, context);
    }

    @LlmTool({ description: 'Reads anything.', effect: 'read_only', reveal: 'all' })
    readAnything(
      @ToolParam('name', CASE) name: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return this.work(name, context);
    }

    private work(name: string, context: ToolCallContext): Promise<unknown> {
      if (!(this.gateway instanceof SqlResourceGateway))
        throw new TypeError('The gateway is to SQL.');
      return this.gateway.within(
        context,
        (em) => RETURNS[name]?.(finds, em) ?? Promise.reject(new Error(name)),
      );
    }
  }
  return OwnTools;
}

interface Answer {
  readonly status: string;
  readonly code?: string;
  readonly result: unknown;
}

/** A method of an application may return of its work what any tool may return. */
export function describesWhatIsReturned(storing: Storing, finds: Finds): void {
  let shop: Shop;
  beforeAll(async () => {
    shop = await Shop.start({
      storing,
      resources: [ownTools(finds), CustomerTools],
      policy: { allow: ['*'], flow: 'off' },
    });
  });
  beforeEach(() => seed(shop));
  afterAll(() => shop?.close());
  const made = async (tool: string, name: string): Promise<Answer> => {
    const { content, record } = await shop.call(`own__${tool}`, { name });
    const { code } = record.error ?? {};
    return {
      status: record.status,
      ...(code !== undefined && { code }),
      result: JSON.parse(textOf(content)),
    };
  };

  it.each<[tool: string, name: string, result: unknown]>([
    ['row', 'row', expect.objectContaining(PAID)],
    ['row', 'rowWithRelation', expect.objectContaining({ ...PAID, customer: ANN })],
    [
      'rows',
      'list',
      [
        expect.objectContaining({ number: 'o-1' }),
        expect.objectContaining(PAID),
        expect.objectContaining({ number: 'o-3' }),
      ],
    ],
    [
      'rows',
      'set',
      [
        expect.objectContaining({ number: 'o-1' }),
        expect.objectContaining(PAID),
        expect.objectContaining({ number: 'o-3' }),
      ],
    ],
    ['receipt', 'nested', { order: expect.objectContaining(PAID), words: 'thanks' }],
    ['customer', 'rowWithCollection', ANN],
    ['some', 'row', { id: 2, number: 'o-2', margin: null }],
    ['some', 'bare', { words: 'said' }],
    [
      'anything',
      'plain',
      {
        id: 2,
        at: '1970-01-01T00:00:00.000Z',
        big: '1152921504606846976',
        map: { a: 1 },
        url: 'https://a.example/b',
      },
    ],
    ['anything', 'nothing', { ok: true }],
    ['anything', 'none', null],
  ])('is told by "%s" as it is declared, of a %s', async (tool, name, result) => {
    expect(await made(tool, name)).toEqual({ status: 'succeeded', result });
  });

  it.each(['row', 'inPlain', 'bare'])(
    'is no instance where anything is revealed, as of a tool that reads (%s)',
    async (name) => {
      expect(await made('anything', name)).toMatchObject({
        status: 'failed',
        code: 'invalid_output',
      });
      expect(await made('readAnything', name)).toMatchObject({
        status: 'failed',
        code: 'invalid_output',
      });
    },
  );

  it.each(['stream', 'circle'])(
    'is refused with nothing written where no result can be made of it (%s)',
    async (name) => {
      expect(await made('anything', name)).toMatchObject({
        status: 'failed',
        code: 'execution_failed',
      });
      expect(await shop.sql(`select note from orders where note = 'written'`)).toEqual([]);
    },
  );

  it('is the row as it was written', async () => {
    expect(await made('row', 'written')).toEqual({
      status: 'succeeded',
      result: expect.objectContaining({ ...PAID, note: 'written', version: 2 }),
    });
  });

  it('brings the tools of an entity', async () => {
    const session = await shop.loop.session({
      actor: { id: 'ada', tenant: 'acme' },
      tenant: 'acme',
    });
    await session.call('own__customer', { name: 'rowWithCollection' });
    expect((await session.call('customer_1_greet')).ui).toBe('Hello Ann of acme, of 2 orders');
    await session.close();
  });

  it('is kept without what the ORM hides', async () => {
    await made('customer', 'rowWithCollection');
    const kept = JSON.stringify(await shop.sql('select effect from toolloop.calls'));
    expect([kept.includes('Ann of acme'), kept.includes('s3cret')]).toEqual([true, false]);
  });
}
