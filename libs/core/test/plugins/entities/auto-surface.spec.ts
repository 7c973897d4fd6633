import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import {
  ConfigurationError,
  LlmTool,
  type LoopRequest,
  policies,
  tool,
  ToolLoopModule,
  ToolLoopService,
  toolLoopToken,
  ToolProvider,
} from '@toolloop/core';
import type { EntitySurface, ToolInjectionStrategy } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { play, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { CrmTools, Customer } from '../../fixtures/shop.js';
import { ask, openShop } from '../../fixtures/shop.module.js';
import { over, show } from './surface-calls.js';

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
}

const people = (key: string) => key.split(',').map((id) => new Customer(id, id.toUpperCase()));
const spend = (id: string) => ({ prefix: 'customer', id, method: 'getAverageSpend' });

async function playAuto(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<Played> {
  const model = new ScriptedModel([...script, text('Done.')]);
  const played = await play(
    await openShop(model),
    ask({ context: { act: people }, limits: { injectedTools: 4 }, ...request }),
  );
  model.assertComplete();
  return { ...played, model };
}

const entityIdsAt = ({ model }: Played, step: number) =>
  model.requests[step - 1]?.toolIds.filter((id) => id.startsWith('customer')) ?? [];
const NAMED = ['ann', 'bob'].flatMap((id) => [
  `customer_${id}_getAverageSpend`,
  `customer_${id}_getRecentOrders`,
]);
const GROUPED = ['customer__getAverageSpend', 'customer__getRecentOrders'];

describe('where nothing is said of the surface, a run', () => {
  it('names the tools of entities for as long as they fit', async () => {
    const played = await playAuto([show('ann,bob')]);
    expect(entityIdsAt(played, 2)).toEqual(NAMED);
  });

  it('groups them from the first result on whose tools do not fit, and keeps what it named where it was', async () => {
    const played = await playAuto([show('ann,bob'), show('cid'), show('dan')]);
    expect(entityIdsAt(played, 3)).toEqual([...NAMED, ...GROUPED]);
    expect(played.model.requests[3]?.tools).toBe(played.model.requests[2]?.tools);
    expect(eventsOf(played.events, 'warning')).toEqual([]);
    expect(
      eventsOf(played.events, 'tools-injected').map(({ provider, instanceId, tools }) => [
        provider,
        instanceId,
        tools.length,
      ]),
    ).toEqual([
      ['Customer', 'ann', 2],
      ['Customer', 'bob', 2],
      ['entities', undefined, 2],
      ['Customer', 'cid', 2],
      ['Customer', 'dan', 2],
    ]);
  });

  it('stays with groups once it went over to them, whatever room there is again', async () => {
    const remover: ToolInjectionStrategy = {
      name: 'remover',
      evaluate: ({ step, toolset }) => ({
        remove:
          step === 3 ? toolset.filter(({ id }) => NAMED.includes(id)).map(({ id }) => id) : [],
      }),
    };
    const played = await playAuto([show('ann,bob'), show('cid'), show('dan'), show('eve')], {
      injection: [remover],
    });
    expect(entityIdsAt(played, 5)).toEqual(GROUPED);
  });

  it('stays with groups where a strategy took away all that it had', async () => {
    const remover: ToolInjectionStrategy = {
      name: 'remover',
      evaluate: ({ step, toolset }) => ({
        remove:
          step === 3 ? toolset.map(({ id }) => id).filter((id) => id.startsWith('customer')) : [],
      }),
    };
    const played = await playAuto([show('ann,bob'), show('cid'), show('dan'), show('eve')], {
      injection: [remover],
    });
    expect(entityIdsAt(played, 4)).toEqual([]);
    expect(entityIdsAt(played, 5)).toEqual(GROUPED);
  });

  it('groups a list as a whole, or not at all', async () => {
    const played = await playAuto([show('ann,bob,cid')]);
    expect(entityIdsAt(played, 2)).toEqual(GROUPED);
  });

  it('groups 50 customers by default', async () => {
    const many = Array.from({ length: 50 }, (_, index) => `c-${index}`).join(',');
    const played = await playAuto([show(many), calls(over('grouped', spend('c-49')))], {
      limits: {},
    });
    expect(resultsIn(played.result.messages).at(-1)).toBe('acme:c-49:C-49');
    expect(played.result.injectedTools.map(({ id }) => id)).toEqual(GROUPED);
  });

  it('calls what it named over both', async () => {
    const both = calls(
      call('customer_ann_getAverageSpend'),
      over('grouped', spend('ann')),
      over('grouped', spend('cid')),
    );
    const { result } = await playAuto([show('ann,bob'), show('cid'), both]);
    expect(resultsIn(result.messages).slice(-3)).toEqual([
      'acme:ann:ANN',
      'acme:ann:ANN',
      'acme:cid:CID',
    ]);
    expect(result.toolCalls.slice(-2).map(({ id }) => id)).toEqual([
      'customer_ann_getAverageSpend',
      'customer_cid_getAverageSpend',
    ]);
  });

  it('refreshes what it named after it went over to groups', async () => {
    let visits = 0;
    const act = (key: string) => key.split(',').map((id) => new Customer(id, `${(visits += 1)}`));
    const { result } = await playAuto(
      [show('ann,bob'), show('cid'), show('ann'), calls(call('customer_ann_getAverageSpend'))],
      {
        context: { act },
      },
    );
    expect(resultsIn(result.messages).at(-1)).toBe('acme:ann:4');
  });

  it('does not call a grouped entity by a name that it was not given', async () => {
    const { result } = await playAuto([
      show('ann,bob,cid'),
      calls(call('customer_ann_getAverageSpend')),
    ]);
    expect(result.toolCalls[1]).toMatchObject({
      status: 'failed',
      error: { code: 'unknown_tool' },
    });
    expect(resultsIn(result.messages)[1]).toContain('customer__getAverageSpend');
  });
});

async function surfaceOf(said: {
  readonly [Level in 'app' | 'loop' | 'run']?: EntitySurface;
}): Promise<string | undefined> {
  const model = new ScriptedModel([
    calls(call('crm__searchCustomers', { name: 'x' })),
    text('Done.'),
  ]);
  const { app, loop, run } = said;
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model, policy: policies.allowAll, ...(app && { surface: app }) }),
      ToolLoopModule.forFeature({
        entities: [Customer],
        loops: { desk: loop ? { surface: loop } : {} },
      }),
    ],
    providers: [CrmTools],
  }).compile();
  await module.init();
  await module.get<ToolLoopService>(toolLoopToken('desk')).run(ask(run && { surface: run }));
  await module.close();
  return model.requests[1]?.toolIds.find((id) => /^customer|^entity/.test(id));
}

describe('the surface', () => {
  it.each<[string, Parameters<typeof surfaceOf>[0], string]>([
    ['no one', {}, 'customer_c-1_getAverageSpend'],
    ['the application', { app: 'grouped' }, 'customer__getAverageSpend'],
    [
      'the loop, which wins over the application',
      { app: 'grouped', loop: 'dispatcher' },
      'entity__call',
    ],
    [
      'the run, which wins over both',
      { app: 'grouped', loop: 'dispatcher', run: 'named' },
      'customer_c-1_getAverageSpend',
    ],
  ])('is said by %s', async (_, said, expected) => {
    expect(await surfaceOf(said)).toBe(expected);
  });

  it('keeps the application and the run from starting when it is unknown', async () => {
    const surface = 'groupd' as EntitySurface;
    const open = openShop(new ScriptedModel([]), { surface });
    await expect(open).rejects.toThrow('Did you mean "grouped"?');
    const loop = await openShop(new ScriptedModel([]));
    expect(() => loop.open(ask({ surface }))).toThrow(ConfigurationError);
  });
});

describe('a dispatcher', () => {
  it('is there from the start, with the very bytes it has for ever, and is listed', async () => {
    const model = new ScriptedModel([show('ann'), show('bob,cid'), text('Done.')]);
    const loop = await openShop(model);
    await play(loop, ask({ surface: 'dispatcher', context: { act: people } }));
    const [first, ...others] = model.requests.map(({ tools }) => tools);
    for (const tools of others) expect(tools).toBe(first);
    expect((await loop.list(ask({ surface: 'dispatcher' }))).at(-1)).toBe(first?.at(-1));
  });

  it('is the very same in every run that may call the same', async () => {
    const loop = await openShop(new ScriptedModel([]));
    const lists = await Promise.all(
      ['acme', 'globex'].map((tenant) => loop.list(ask({ tenant, surface: 'dispatcher' }))),
    );
    expect(lists[0]?.at(-1)).toBe(lists[1]?.at(-1));
  });

  it('tells of no method that policy denies, and is not there where it denies all', async () => {
    const loop = await openShop(new ScriptedModel([]));
    const listed = async (policy: LoopRequest['policy']) =>
      (await loop.list(ask({ surface: 'dispatcher', ...(policy && { policy }) }))).find(
        ({ id }) => id === 'entity__call',
      );
    expect(
      (await listed({ allow: ['*'], deny: ['customer_*_getRecentOrders'] }))?.description,
    ).not.toContain('getRecentOrders');
    expect(JSON.stringify(await listed({ allow: ['customer_*_*'] }))).not.toContain('- order');
    expect(await listed({ allow: ['crm__*'] })).toBeUndefined();
  });
});

@ToolProvider({ prefix: 'line', instanceIdProperty: ['order', 'number'] })
class Line {
  @Expose() readonly order: unknown;
  @Expose() readonly number: unknown;
  constructor(order: unknown, number: unknown) {
    this.order = order;
    this.number = number;
  }

  @LlmTool({ description: 'What was bought.', effect: 'read_only', reveal: 'all' })
  describe(): string {
    return `${String(this.number)} of ${String(this.order)}`;
  }
}

it('two different composite ids never share a name, nor do they over a group', async () => {
  const pairs: readonly (readonly [unknown, unknown])[] = [
    ['a', 'b'],
    ['a,b', ''],
    ['a', 'b,'],
    ['a","b', ''],
    [1, '1'],
    ['1', 1],
    [1, 1],
    [true, 1],
  ];
  const lines = () => pairs.map(([order, number]) => new Line(order, number));
  for (const surface of ['named', 'grouped'] as const) {
    const said = pairs.map((pair, index) =>
      surface === 'named'
        ? call(`line_h${index + 1}_describe`)
        : over('grouped', { prefix: 'line', id: JSON.stringify(pair), method: 'describe' }),
    );
    const model = new ScriptedModel([show('x'), calls(...said), text('Done.')]);
    const { result } = await play(
      await openShop(model, { entities: [Line] }),
      ask({ surface, context: { act: lines } }),
    );
    expect(resultsIn(result.messages).slice(1)).toEqual(lines().map((line) => line.describe()));
    expect(new Set(result.toolCalls.slice(1).map(({ entity }) => entity?.instanceId)).size).toBe(
      pairs.length,
    );
  }
});

it.each(['customer__getAverageSpend', 'entity__call'])(
  'a tool of the id %s keeps the application from starting',
  async (id) => {
    const own = tool({
      id,
      description: 'Takes an id.',
      effect: 'read_only',
      reveal: 'all',
      execute: () => 'x',
    });
    await expect(openShop(new ScriptedModel([]), { tools: [own] })).rejects.toThrow(
      `Its id "${id}" is already the id of`,
    );
  },
);
