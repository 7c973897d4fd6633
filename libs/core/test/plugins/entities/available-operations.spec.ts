import { describe, expect, it } from '@jest/globals';
import {
  LlmTool,
  type LoopRequest,
  type LoopResult,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { findingsOf } from '../../tools/application.js';
import { play, resultsIn } from '../../fixtures/played-run.js';
import type { Act } from '../../fixtures/probe.tools.js';
import { Cart, Customer, Order } from '../../fixtures/shop.js';
import { ask, openModule, openShop, type ShopOptions } from '../../fixtures/shop.module.js';

const wanted = { execution: { availableOperations: true } };
const operations = '_availableOperations';

async function shown(
  turns: readonly ScriptedTurn[],
  act: Act,
  shop: ShopOptions = wanted,
  request: Partial<LoopRequest> = {},
): Promise<LoopResult> {
  const model = new ScriptedModel([...turns, text('Done.')]);
  const { result } = await play(await openShop(model, shop), ask({ context: { act }, ...request }));
  model.assertComplete();
  return result;
}

const parsed = (result: LoopResult, index = -1) =>
  JSON.parse(resultsIn(result.messages).at(index) ?? '') as Record<string, unknown>;
const find = (tool: string) => calls(call(`probe__${tool}`, { key: 'a' }));
const ofCustomer = (id: string) => [
  `customer_${id}_getAverageSpend`,
  `customer_${id}_getRecentOrders`,
];

/** Calls the first that it is told of. */
const callFirst: ScriptedTurn = ({ messages }) => {
  const last = messages.at(-1);
  const [first = ''] = (
    JSON.parse(last?.role === 'tool' && typeof last.content === 'string' ? last.content : '{}') as {
      [operations]: string[];
    }
  )[operations];
  return calls(call(first));
};

const findAnn: Act = () => new Customer('a', 'Ann');

describe('what can be called on the entities of a result', () => {
  it('is told only to a run that asks for it', async () => {
    expect(
      parsed(await shown([find('customer')], () => new Customer('a', 'Ann'), {})),
    ).not.toHaveProperty(operations);
  });

  it('stands with each of them, under the names of the run', async () => {
    const result = await shown([find('customers')], () => [
      new Customer('a', 'Ann'),
      new Customer('b/1', 'Bob'),
    ]);
    expect(parsed(result)).toMatchObject([
      { id: 'a', [operations]: ofCustomer('a') },
      { id: 'b/1', [operations]: ofCustomer('h1') },
    ]);
  });

  it('stands within lists, maps, pages and other entities', async () => {
    const ann = new Customer('a', 'Ann');
    const page = {
      items: [new Order('o', 1)],
      byId: new Map([['a', ann]]),
      cart: new Cart('k', ann),
      nextCursor: 'x',
    };
    const { content } = parsed(await shown([find('show')], () => page)) as { content: object };
    expect(content).toMatchObject({
      items: [{ [operations]: ['order_o_describe', 'order_o_getCustomer', 'order_o_cancel'] }],
      byId: { a: { [operations]: ofCustomer('a') } },
      cart: {
        [operations]: ['cart_k_add', 'cart_k_list'],
        owner: { [operations]: ofCustomer('a') },
      },
      nextCursor: 'x',
    });
  });

  it('can be called', async () => {
    const result = await shown([find('customer'), callFirst], () => new Customer('a', 'Ann'));
    expect(resultsIn(result.messages).at(-1)).toBe('acme:a:Ann');
  });

  it.each<[string, Partial<LoopRequest>, readonly string[]]>([
    [
      'policy denies',
      { policy: { allow: ['*'], deny: ['customer_*_getRecentOrders'] } },
      ['customer_a_getAverageSpend'],
    ],
    [
      'the run excludes',
      { exclude: ['customer_*_getAverageSpend'] },
      ['customer_a_getRecentOrders'],
    ],
  ])('leaves out what %s', async (_what, request, expected) => {
    const result = await shown([find('customer')], () => new Customer('a', 'Ann'), wanted, request);
    expect(parsed(result)[operations]).toEqual(expected);
  });

  it.each<[string, Partial<LoopRequest>]>([
    ['nothing is injected', { injection: false }],
    ['it is too deep', { limits: { injectionDepth: 0 } }],
    ['there is no room', { limits: { injectedInstances: 0 } }],
    ['there is no room for names', { limits: { injectedTools: 1 }, surface: 'named' }],
  ])('is nothing where %s', async (_what, request) => {
    expect(
      parsed(await shown([find('customer')], () => new Customer('a', 'Ann'), wanted, request)),
    ).not.toHaveProperty(operations);
  });

  it.each<[NonNullable<LoopRequest['surface']>, string]>([
    ['grouped', 'customer__getAverageSpend({"id":"a b"})'],
    ['dispatcher', 'entity__call({"entity":"customer","id":"a b","method":"getAverageSpend"})'],
    ['named', 'customer_h1_getAverageSpend'],
  ])('is what is called over the surface %s', async (surface, expected) => {
    const read = parsed(
      await shown([find('customer')], () => new Customer('a b', 'Ann'), wanted, { surface }),
    );
    expect(read[operations]).toContain(expected);
  });

  it('leaves out what policy denies by the time the result is read', async () => {
    const model = new ScriptedModel([find('customer'), find('customer'), text('Done.')]);
    const module = await openModule(model, wanted);
    const engine = module.get(DataPolicyEngine);
    const act: Act = () => {
      if (model.requests.length === 2) engine.replace({ allow: ['*'], deny: ['customer_*_*'] });
      return new Customer('a', 'Ann');
    };
    const { result } = await play(module.get(ToolLoopService), ask({ context: { act } }));
    expect([parsed(result, 0)[operations], parsed(result, 1)[operations]]).toEqual([
      ofCustomer('a'),
      undefined,
    ]);
  });

  it('is left out whole where it does not fit, and nothing else is', async () => {
    const plain = resultsIn((await shown([find('customer')], findAnn, {})).messages).at(-1) ?? '';
    const bytes = Buffer.byteLength(plain) + 10;
    const result = await shown([find('customer')], findAnn, wanted, {
      limits: { resultBytes: bytes },
    });
    expect(resultsIn(result.messages).at(-1)).toBe(plain);
  });

  it('is read by the model alone', async () => {
    const result = await shown([find('customer')], () => new Customer('a', 'Ann'));
    expect(JSON.stringify(result.toolCalls)).not.toContain(operations);
  });

  it('stands in the envelope, beside metadata, and is said by a tool or a run', async () => {
    const request = {
      execution: { availableOperations: true, resultFormat: 'envelope', metadata: 'inline' },
    } as const;
    const { result } = parsed(
      await shown([find('customer')], () => new Customer('a', 'Ann'), {}, request),
    ) as { result: object };
    expect(result).toMatchObject({ [operations]: ofCustomer('a'), _execution_metadata: {} });
  });

  it('is told of all results of a step, once all have brought their tools', async () => {
    const both = calls(
      call('probe__customer', { key: 'a' }),
      call('probe__customer', { key: 'b' }),
    );
    const result = await shown([both], (key) => new Customer(key, key));
    expect([parsed(result, 0)[operations], parsed(result, 1)[operations]]).toEqual([
      ofCustomer('a'),
      ofCustomer('b'),
    ]);
  });

  it('never stands in the place of a property', async () => {
    @ToolProvider({ prefix: 'door' })
    class Door {
      @Expose() id = '1';
      @Expose({ name: '_availableOperations' }) own = 'mine';
      @LlmTool({ description: 'Opens.', effect: 'read_only', reveal: 'all' }) open(): string {
        return this.own;
      }
    }
    expect(
      await findingsOf({ imports: [ToolLoopModule.forFeature({ entities: [Door] })] }),
    ).toMatchObject([
      {
        at: 'Door',
        problem: expect.stringContaining('_availableOperations'),
        remedy: expect.stringContaining('another name'),
      },
    ]);
  });
});
