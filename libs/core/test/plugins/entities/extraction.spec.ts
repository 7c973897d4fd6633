import { describe, expect, it } from '@jest/globals';
import { LlmTool, type LoopRequest, type LoopResult, tool, ToolProvider } from '@toolloop/core';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { Exclude, Expose, Type } from 'class-transformer';
import { play, resultsIn } from '../../fixtures/played-run.js';
import type { Act } from '../../fixtures/probe.tools.js';
import { Customer, Order } from '../../fixtures/shop.js';
import { ask, openShop } from '../../fixtures/shop.module.js';

@ToolProvider({ prefix: 'part' })
class Part {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'What it weighs.', effect: 'read_only', reveal: 'all' })
  weigh(): string {
    return `${this.id} weighs 1`;
  }
}

@ToolProvider({ prefix: 'item' })
class LineItem {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'How many.', effect: 'read_only', reveal: 'all' })
  getQuantity(): string {
    return `${this.id} three times`;
  }

  @LlmTool({ description: 'Its parts.', effect: 'read_only', output: [Part] })
  getParts(): Part[] {
    return [new Part(`${this.id}-p`)];
  }
}

@ToolProvider({ prefix: 'purchase' })
class Purchase {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'Its items.', effect: 'read_only', output: [LineItem] })
  getItems(): LineItem[] {
    return [1, 2].map((number) => new LineItem(`${this.id}-${number}`));
  }
}

@ToolProvider({ prefix: 'buyer' })
class Buyer {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({ description: 'Purchases.', effect: 'read_only', output: [Purchase] })
  getPurchases(): Purchase[] {
    return [new Purchase(`${this.id}-1`)];
  }
}

const show = calls(call('probe__show', { key: 'a' }));

async function shown(
  act: Act,
  turns: readonly ScriptedTurn[] = [show],
  request: Partial<LoopRequest> = {},
): Promise<LoopResult> {
  const model = new ScriptedModel([...turns, text('Done.')]);
  const loop = await openShop(model, { entities: [Buyer], limits: { injectedTools: 100 } });
  const { result } = await play(loop, ask({ context: { act }, ...request }));
  model.assertComplete();
  return result;
}

const owners = ({ injectedTools }: LoopResult) => [
  ...new Set(injectedTools.map(({ id }) => id.split('_')[1])),
];

/** Gives what it holds once, then fails. */
class Flaky {
  private reads = 0;
  constructor(private readonly held: object) {}

  @Expose() get owner(): object {
    this.reads += 1;
    if (this.reads > 2) throw new Error('The session is closed.');
    return this.held;
  }
}

describe('what a result shows brings its tools', () => {
  it.each<[string, (ann: Customer, order: Order) => unknown]>([
    ['in a page', (ann, order) => ({ items: [ann, order], nextCursor: 'abc', total: 2 })],
    [
      'in a page of a page',
      (ann, order) => ({
        data: { edges: [{ node: ann }, { node: order }] },
        pageInfo: { hasNextPage: false },
      }),
    ],
    [
      'in a map of sets',
      (ann, order) =>
        new Map([
          ['x', new Set([ann])],
          ['y', new Set<object>([order])],
        ]),
    ],
    ['in lists of lists', (ann, order) => [[[ann]], [order]]],
  ])('%s', async (_where, make) => {
    expect(owners(await shown(() => make(new Customer('ann', 'Ann'), new Order('o', 1))))).toEqual([
      'ann',
      'o',
    ]);
  });

  it('keeps the rest when a value is read twice and fails the second time', async () => {
    const result = await shown(() => [
      new Flaky(new Customer('bob', 'Bob')),
      new Customer('ann', 'Ann'),
    ]);
    expect(result.toolCalls[0]?.status).toBe('succeeded');
    expect(owners(result)).toEqual(['ann']);
  });
});

class Team {
  @Expose() @Type(() => Customer) lead: unknown = new Customer('ann', 'Ann');
}
class Discreet extends Team {
  @Exclude() override lead: unknown = new Customer('bob', 'Bob');
}
class ForThePage extends Team {
  @Expose({ groups: ['ui'] }) override lead: unknown = new Customer('eve', 'Eve');
}
/** It exposes nothing, and stands in for a Team. */
class Row {
  @Exclude() lead = new Customer('cid', 'Cid');
}

describe('invariant 18: what the class of an instance hides', () => {
  it('invariant 18: brings no tools where a tool declares the class above it', async () => {
    const teams = tool({
      id: 'teams__list',
      description: 'All teams.',
      effect: 'read_only',
      output: [Team],
      execute: () => [new Team(), new Discreet(), new ForThePage(), new Row()],
    });
    const model = new ScriptedModel([calls(call('teams__list')), text('Done.')]);
    const { result } = await play(await openShop(model, { tools: [teams] }), ask());
    expect(result.toolCalls[0]?.status).toBe('succeeded');
    expect(owners(result)).toEqual(['ann']);
  });
});

describe('entities that entities return', () => {
  const chain = [
    show,
    calls(call('buyer_b_getPurchases')),
    calls(call('purchase_b-1_getItems')),
    calls(call('item_b-1-2_getQuantity'), call('item_b-1-2_getParts')),
  ];

  it('have their own tools, each bound to its own, one deeper than what returned them', async () => {
    const result = await shown(() => new Buyer('b'), chain);
    expect(resultsIn(result.messages)[3]).toBe('b-1-2 three times');
    expect(result.toolCalls.map(({ entity }) => entity?.depth)).toEqual([undefined, 1, 2, 3, 3]);
  });

  it('have none past the depth', async () => {
    const result = await shown(() => new Buyer('b'), [...chain, calls(call('part_b-1-2-p_weigh'))]);
    expect(result.toolCalls.at(-1)).toMatchObject({ error: { code: 'unknown_tool' } });
  });
});
