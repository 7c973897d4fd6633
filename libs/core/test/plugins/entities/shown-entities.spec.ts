import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { LlmTool, type ToolCallContext, ToolContext, ToolProvider } from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, expectInjected, text } from '@toolloop/testing';
import { Expose, Transform, Type } from 'class-transformer';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import { Cart, Customer, Order } from '../../fixtures/shop.js';
import { ask, openShop } from '../../fixtures/shop.module.js';

class Contact {
  @Expose() readonly customer: Customer;
  constructor(customer: Customer) {
    this.customer = customer;
  }
}

class Report {
  @Expose() title = 'Report';
  @Expose() best?: object;
  @Expose() @Type(() => Customer) all?: Iterable<object> | ReadonlyMap<string, object>;
  @Expose() contact?: Contact;
  @Expose({ groups: ['model'] }) forModel?: object;
  @Expose({ groups: ['ui'] }) forUi?: object;
  undecorated?: object;

  static with(fields: Partial<Report>): Report {
    return Object.assign(new Report(), fields);
  }

  get computed(): object | undefined {
    return this.undecorated;
  }
}

class DetailedReport extends Report {
  @Expose() detail?: object;
}

/** As an ORM gives it: no decorators of ours. */
class ReportRow {
  constructor(
    readonly best: object,
    readonly undecorated: object,
  ) {}
}

class NamedOwner {
  @Expose() @Transform(({ value }) => (value as Customer).name) readonly owner: Customer;
  constructor(owner: Customer) {
    this.owner = owner;
  }
}

@Injectable()
@ToolProvider({ namespace: 'reports' })
class ReportTools {
  @LlmTool({ description: 'A report.', effect: 'read_only', output: Report })
  report(@ToolContext() context: ToolCallContext): unknown {
    return resultOf(context);
  }

  @LlmTool({ description: 'Reports.', effect: 'read_only', output: [Report] })
  reports(@ToolContext() context: ToolCallContext): unknown {
    return resultOf(context);
  }

  @LlmTool({ description: 'An owner.', effect: 'read_only', output: NamedOwner })
  owner(@ToolContext() context: ToolCallContext): unknown {
    return resultOf(context);
  }

  @LlmTool({ description: 'Names.', effect: 'read_only', reveal: ['name'] })
  names(@ToolContext() context: ToolCallContext): unknown {
    return resultOf(context);
  }

  @LlmTool({ description: 'Nothing.', effect: 'read_only', reveal: [] })
  nothing(@ToolContext() context: ToolCallContext): unknown {
    return resultOf(context);
  }
}

function resultOf({ context }: ToolCallContext): unknown {
  return (context as { readonly result: () => unknown }).result();
}

/** The ids of the entities whose tools a result brought, in order. */
async function entitiesIn(tool: string, result: () => unknown): Promise<string[]> {
  const { events } = await playResult(tool, result);
  return eventsOf(events, 'tools-injected').map(
    ({ provider, instanceId }) => `${provider} ${instanceId}`,
  );
}

async function playResult(tool: string, result: () => unknown): Promise<PlayedRun> {
  const model = new ScriptedModel([
    calls(call(tool, tool.startsWith('probe') ? { key: 'a' } : {})),
    text('Done.'),
  ]);
  const loop = await openShop(model, { providers: [ReportTools], entities: [Customer] });
  const played = await play(loop, ask({ context: { result, act: result } }));
  expect(played.result.toolCalls).toMatchObject([{ status: 'succeeded' }]);
  return played;
}

const ann = new Customer('ann', 'Ann');
const bob = new Customer('bob', 'Bob');
const cid = new Customer('cid', 'Cid');

describe('invariant 8: injection finds what a result shows', () => {
  it('a single entity, with all its tools and the event that tells of them', async () => {
    const { events, result } = await playResult('probe__customer', () => ann);
    const tools = ['customer_ann_getAverageSpend', 'customer_ann_getRecentOrders'];
    expectInjected(events, { provider: 'Customer', instanceId: 'ann', tools });
    expect(result.injectedTools.map(({ id }) => id)).toEqual(tools);
    expect(result.injectedTools[0]).toMatchObject({ declaredId: 'customer_*_getAverageSpend' });
  });

  it.each<[string, string, () => unknown, string[]]>([
    ['a list', 'probe__customers', () => [ann, bob], ['Customer ann', 'Customer bob']],
    ['a Set', 'probe__customers', () => new Set([bob, ann]), ['Customer bob', 'Customer ann']],
    ['a promise', 'probe__customer', () => Promise.resolve(ann), ['Customer ann']],
    [
      'the last value of a stream',
      'probe__customer',
      async function* () {
        yield await Promise.resolve(bob);
        yield ann;
      },
      ['Customer ann'],
    ],
    ['an exposed field', 'reports__report', () => Report.with({ best: ann }), ['Customer ann']],
    [
      'an exposed list',
      'reports__report',
      () => Report.with({ all: [ann, bob] }),
      ['Customer ann', 'Customer bob'],
    ],
    [
      'an exposed Set',
      'reports__report',
      () => Report.with({ all: new Set([ann]) }),
      ['Customer ann'],
    ],
    [
      'an exposed Map',
      'reports__report',
      () => Report.with({ all: new Map([['x', ann]]) }),
      ['Customer ann'],
    ],
    [
      'an object in an exposed field',
      'reports__report',
      () => Report.with({ best: { deep: [{ er: ann }] } }),
      ['Customer ann'],
    ],
    [
      'an object within an object',
      'reports__report',
      () => Report.with({ contact: new Contact(ann) }),
      ['Customer ann'],
    ],
    [
      'a field for the model alone',
      'reports__report',
      () => Report.with({ forModel: ann }),
      ['Customer ann'],
    ],
    [
      'objects of a list',
      'reports__reports',
      () => [Report.with({ best: ann }), Report.with({ best: bob })],
      ['Customer ann', 'Customer bob'],
    ],
    [
      'a plain object where a class is declared',
      'reports__report',
      () => ({ title: 'x', best: ann }),
      ['Customer ann'],
    ],
    [
      'an instance of another class that exposes nothing',
      'reports__report',
      () => new ReportRow(ann, bob),
      ['Customer ann'],
    ],
    [
      'a subclass',
      'reports__report',
      () => Object.assign(new DetailedReport(), { best: ann }),
      ['Customer ann'],
    ],
    [
      'an entity within an entity, the outer one first',
      'probe__cart',
      () => new Cart('k1', ann),
      ['Cart k1', 'Customer ann'],
    ],
    ['a field that is transformed', 'reports__owner', () => new NamedOwner(ann), ['Customer ann']],
    ['an entity of which fields are picked', 'reports__names', () => ann, ['Customer ann']],
    [
      'a list of entities of which fields are picked',
      'reports__names',
      () => [ann, bob],
      ['Customer ann', 'Customer bob'],
    ],
    [
      'a result beside an object without a prototype',
      'reports__report',
      () => Report.with({ best: Object.assign(Object.create(null) as object, { ann }) }),
      ['Customer ann'],
    ],
    [
      'a result beside data named constructor',
      'reports__report',
      () => Report.with({ best: { constructor: 'Ford', ann } }),
      ['Customer ann'],
    ],
  ])('gives tools for a value in %s', async (_, tool, result, expected) => {
    expect(await entitiesIn(tool, result)).toEqual(expected);
  });

  it.each<[string, string, () => unknown]>([
    ['a field that is not decorated', 'reports__report', () => Report.with({ undecorated: ann })],
    ['a field for the ui alone', 'reports__report', () => Report.with({ forUi: ann })],
    [
      'an undecorated field of a plain object',
      'reports__report',
      () => ({ title: 'x', undecorated: ann, forUi: bob, more: cid }),
    ],
    [
      'an undecorated field of an instance that exposes nothing',
      'reports__report',
      () => new ReportRow({}, ann),
    ],
    [
      'a field that only the subclass exposes',
      'reports__report',
      () => Object.assign(new DetailedReport(), { detail: ann }),
    ],
    ['a result of which nothing is shown', 'reports__nothing', () => ann],
    ['a field that is not picked', 'reports__names', () => ({ name: 'x', customer: ann })],
    ['null', 'probe__customer', () => null],
    ['an empty list', 'probe__customers', () => []],
  ])('gives none for a value that it does not show: %s', async (_, tool, result) => {
    expect(await entitiesIn(tool, result)).toEqual([]);
  });

  it('leaves out the customer that an order does not expose', async () => {
    expect(await entitiesIn('probe__orders', () => [new Order('o1', 1, ann)])).toEqual([
      'Order o1',
    ]);
  });

  it('never loops where two objects refer to each other', async () => {
    const outer = Report.with({ best: { ann } });
    const shared = { ann, bob };
    outer.best = [shared, shared];
    expect(await entitiesIn('reports__report', () => outer)).toEqual([
      'Customer ann',
      'Customer bob',
    ]);
  });
});
