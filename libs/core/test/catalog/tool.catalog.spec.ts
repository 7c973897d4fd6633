import { describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { Expose } from 'class-transformer';
import {
  InvalidRequestError,
  LlmTool,
  ToolCatalog,
  ToolLoopModule,
  ToolProvider,
  type ToolSelector,
  type ToolSpec,
} from '@toolloop/core';
import { compile, start } from '../tools/application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool(fine) searchCustomers(): void {}
  @LlmTool({ ...fine, effect: 'state_change' }) deleteCustomer(): void {}
}

@ToolProvider({ namespace: 'vip' })
class VipTools extends CrmTools {
  @LlmTool(fine) cancel(): void {}
}

@ToolProvider({ namespace: 'orders' })
class OrderTools {
  @LlmTool({ ...fine, effect: 'external_side_effect' }) cancel(): void {}
  @LlmTool(fine) track(): void {}
}

@ToolProvider({ prefix: 'customer' })
class Customer {
  @Expose() id = '1';
  @LlmTool(fine) getAverageSpend(): number {
    return 1;
  }
}

class Unrelated {
  readonly id = 1;
}

function isTrack({ id }: ToolSpec): boolean {
  return id === 'orders__track';
}

const declared = {
  providers: [CrmTools, VipTools, OrderTools],
  imports: [ToolLoopModule.forFeature({ entities: [Customer] })],
};

async function catalog(): Promise<ToolCatalog> {
  const module = await start(declared);
  return module.get(ToolCatalog);
}

async function built(...tools: ToolSelector[]): Promise<string[]> {
  return (await catalog()).build({ tools }).map(({ spec }) => spec.id);
}

const all = [
  'crm__searchCustomers',
  'crm__deleteCustomer',
  'vip__searchCustomers',
  'vip__deleteCustomer',
  'vip__cancel',
  'orders__cancel',
  'orders__track',
];

describe('ToolCatalog.list', () => {
  it('lists the tools that are there from the start, in the order of declaration', async () => {
    expect((await catalog()).list().map(({ id }) => id)).toEqual(all);
  });
});

describe('ToolCatalog.build', () => {
  it('takes all without a selection', async () => {
    expect((await catalog()).build({})).toHaveLength(all.length);
  });

  it.each<[string, ToolSelector[], string[]]>([
    ['a declared id', ['orders__track'], ['orders__track']],
    ['a short name that one tool has', ['track'], ['orders__track']],
    ['a glob', ['*__cancel'], ['vip__cancel', 'orders__cancel']],
    ['a class', [OrderTools], ['orders__cancel', 'orders__track']],
    ['a class, with those below it', [CrmTools], all.slice(0, 5)],
    [
      'a class below another',
      [VipTools],
      ['vip__searchCustomers', 'vip__deleteCustomer', 'vip__cancel'],
    ],
    [
      'a predicate',
      [({ effect }) => effect === 'state_change'],
      ['crm__deleteCustomer', 'vip__deleteCustomer'],
    ],
    ['a predicate that is an old function', [isTrack], ['orders__track']],
    [
      'several, each tool once and in the order of the catalog',
      ['orders__*', 'orders__track', VipTools],
      all.slice(2),
    ],
    ['none', [], []],
  ])('takes by %s', async (_, tools, ids) => {
    expect(await built(...tools)).toEqual(ids);
  });

  it('leaves out what is excluded, whatever names it', async () => {
    const found = (await catalog()).build({
      tools: ['orders__*', CrmTools],
      exclude: ['*__cancel', VipTools, 'track'],
    });
    expect(found.map(({ spec }) => spec.id)).toEqual([
      'crm__searchCustomers',
      'crm__deleteCustomer',
    ]);
  });

  it('accepts the declared id and the class of an entity, whose tools are not there yet', async () => {
    const found = (await catalog()).build({
      exclude: ['customer_*_getAverageSpend', 'customer_*_*', Customer],
    });
    expect(found).toHaveLength(all.length);
  });

  it.each<[ToolSelector, string]>([
    [
      'crm__serchCustomers',
      'No tool is named "crm__serchCustomers". Did you mean "crm__searchCustomers" or "vip__searchCustomers" or "crm__deleteCustomer"?',
    ],
    ['weather', 'No tool is named "weather". The catalog lists all tools.'],
    ['cancel', '"cancel" is short for vip__cancel and orders__cancel. Use the whole id.'],
    ['order__*', 'No tool is named "order__*". Did you mean "orders__*"?'],
    [
      Unrelated,
      'There is no tool of the class Unrelated. Mark it @ToolProvider() and list it in the providers of a module, or name a module that has such providers itself.',
    ],
  ])('refuses %p', async (selector, message) => {
    const { build } = await bound();
    for (const selection of [{ tools: [selector] }, { exclude: [selector] }]) {
      expect(() => build(selection)).toThrow(new InvalidRequestError('unknown_tool', message));
    }
  });
});

async function bound() {
  const found = await catalog();
  return {
    build: found.build.bind(found),
    resolve: found.resolve.bind(found),
    describe: found.describe.bind(found),
  };
}

describe('ToolCatalog.resolve', () => {
  it('knows a tool by its id and by its short name', async () => {
    const { resolve } = await bound();
    expect(resolve('orders__track').spec.id).toBe('orders__track');
    expect(resolve('track').spec.id).toBe('orders__track');
  });

  it('answers a wrong name with the closest', async () => {
    const { resolve } = await bound();
    expect(() => resolve('orders__trak')).toThrow(
      'No tool is named "orders__trak". Did you mean "orders__track"',
    );
  });

  it.each(['__proto__', 'constructor', 'toString', ''])('knows no tool named %j', async (name) => {
    const { resolve } = await bound();
    expect(() => resolve(name)).toThrow(InvalidRequestError);
  });
});

describe('ToolCatalog.suggest', () => {
  it('names service and entity tools', async () => {
    const found = await catalog();
    expect(found.suggest('crm__delteCustomer')[0]).toBe('crm__deleteCustomer');
    expect(found.suggest('customer_getAverageSpend')).toEqual(['customer_*_getAverageSpend']);
  });
});

describe('ToolCatalog.describe', () => {
  it('tells all about a service tool, as JSON', async () => {
    const description = (await catalog()).describe('crm__deleteCustomer');
    expect(JSON.parse(JSON.stringify(description))).toEqual({
      id: 'crm__deleteCustomer',
      declaredId: 'crm__deleteCustomer',
      description: 'Does it.',
      effect: 'state_change',
      inputSchema: { type: 'object', properties: {}, additionalProperties: false },
      labels: { returns: 'untrusted', reads: 'private', egress: false },
      redaction: { kind: 'reveal', fields: 'all' },
      schemaHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      source: 'discovery',
      trusted: true,
      perInstance: false,
    });
  });

  it('tells all about an entity tool', async () => {
    expect((await catalog()).describe('customer_*_getAverageSpend')).toMatchObject({
      declaredId: 'customer_*_getAverageSpend',
      perInstance: true,
      trusted: true,
    });
  });

  it('answers a wrong name with the closest', async () => {
    const { describe: tell } = await bound();
    expect(() => tell('customer_*_getAvgSpend')).toThrow(
      'Did you mean "customer_*_getAverageSpend"?',
    );
  });
});

describe('a spec', () => {
  it('is frozen', async () => {
    const [spec] = (await catalog()).list();
    expect(Object.isFrozen(spec)).toBe(true);
  });

  it('labels an external effect as one that can carry data out', async () => {
    expect((await catalog()).describe('orders__cancel').labels).toEqual({
      returns: 'untrusted',
      reads: 'private',
      egress: true,
    });
  });

  it('has a hash that changes with its words and not with its class', async () => {
    const [crm, , vip] = (await catalog()).list();
    const other = (await catalog()).describe('orders__track');
    expect(crm?.schemaHash).toBe(vip?.schemaHash);
    expect(other.schemaHash).toBe(crm?.schemaHash);
    const reworded = await hashOf({ ...fine, description: 'Does it too.' });
    expect(reworded).not.toBe(crm?.schemaHash);
  });
});

async function hashOf(options: Parameters<typeof LlmTool>[0]): Promise<string> {
  @ToolProvider({ namespace: 'one' })
  class OneTools {
    @LlmTool(options) run(): void {}
  }
  const providers: Type[] = [OneTools];
  return (await start({ providers })).get(ToolCatalog).describe('one__run').schemaHash;
}

describe('before the application has started', () => {
  it.each<[string, (found: ToolCatalog) => unknown]>([
    ['list', (found) => found.list()],
    ['build', (found) => found.build({})],
    ['resolve', (found) => found.resolve('crm__searchCustomers')],
    ['suggest', (found) => found.suggest('crm')],
    ['describe', (found) => found.describe('crm__searchCustomers')],
    ['entities', (found) => found.entities],
  ])('%s says so', async (_, ask) => {
    const module = await compile(declared);
    const found = module.get(ToolCatalog);
    expect(() => ask(found)).toThrow(
      'The tool catalog is filled when the application has started: call app.init() or app.listen() first.',
    );
  });
});
