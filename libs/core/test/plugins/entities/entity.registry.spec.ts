import { describe, expect, it } from '@jest/globals';
import { Expose } from 'class-transformer';
import { LlmTool, ToolCatalog, ToolLoopModule, ToolProvider } from '@toolloop/core';
import { instanceIdOf } from '../../../src/plugins/entities/instance-id.js';
import { type EntityRegistry } from '../../../src/plugins/entities/entity-registry.js';
import { start } from '../../tools/application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

@ToolProvider({ prefix: 'customer', instanceIdProperty: 'number' })
class Customer {
  @Expose() number: unknown = 1;
  @LlmTool(fine) spend(): number {
    return 1;
  }
}

class VipCustomer extends Customer {}

@ToolProvider()
class Stranger {
  @Expose() id = '1';
  @LlmTool(fine) run(): void {}
}

async function registry(): Promise<EntityRegistry> {
  const module = await start({ imports: [ToolLoopModule.forFeature({ entities: [Customer] })] });
  return module.get(ToolCatalog).entities;
}

describe('EntityRegistry', () => {
  it('finds the definition of a class, and of a class below it', async () => {
    const entities = await registry();
    expect(entities.find(new Customer())?.type).toBe(Customer);
    expect(entities.find(new VipCustomer())?.type).toBe(Customer);
  });

  it.each([{}, [], new Map(), Object.create(null) as object, { constructor: Customer }])(
    'finds nothing for %p',
    async (value) => {
      const entities = await registry();
      expect(entities.find(value)).toBeUndefined();
      expect(entities.isUnknownProvider(value)).toBe(false);
    },
  );

  it('tells a marked class that is not registered from one that is known', async () => {
    const entities = await registry();
    expect(entities.isUnknownProvider(new Stranger())).toBe(true);
    expect(entities.isUnknownProvider(new VipCustomer())).toBe(false);
  });

  it('knows how long an id may be, so that every tool of the entity stays within 64 characters', async () => {
    const [definition] = (await registry()).definitions;
    expect(definition?.maxIdLength).toBe(24);
  });
});

describe('instanceIdOf', () => {
  it.each<[string, unknown, string | undefined]>([
    ['text', 'c-1', 'c-1'],
    ['a number', 7, '7'],
    ['a bigint', 9007199254740993n, '9007199254740993'],
    ['a method', () => 'from a method', 'from a method'],
    ['an empty text', '', undefined],
    ['NaN', Number.NaN, undefined],
    ['null', null, undefined],
    ['a text that is spaces', ' ', ' '],
    ['a list', ['o-1', 3, 4n, true], '["o-1",3,4,true]'],
    ['a method that gives a list', () => ['o-1', 3], '["o-1",3]'],
    ['a plain object, its names in order', { order: 'o-1', line: 3 }, '{"line":3,"order":"o-1"}'],
    ['an object that says itself as JSON', { toJSON: () => '65f0c0ffee' }, '65f0c0ffee'],
    ['a date in a list', [new Date(0), 'EUR'], '["1970-01-01T00:00:00.000Z","EUR"]'],
    ['an empty list', [], undefined],
    ['an empty object', {}, undefined],
    ['a list with a gap', ['o-1', undefined], undefined],
    ['a list with nothing that counts', ['o-1', Number.NaN], undefined],
    ['a list in a list', [['o-1']], undefined],
    ['an object within an object', { order: { id: 1 } }, undefined],
    ['an object of a class', new Stranger(), undefined],
    ['a promise', Promise.resolve('1'), undefined],
  ])('reads %s', async (_, number, id) => {
    const [definition] = (await registry()).definitions;
    if (!definition) throw new Error('no definition');
    expect(instanceIdOf(definition, Object.assign(new Customer(), { number }))).toBe(id);
  });
});
