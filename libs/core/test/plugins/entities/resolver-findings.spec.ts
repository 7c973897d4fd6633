import { describe, expect, it } from '@jest/globals';
import { Injectable, Module, type Type } from '@nestjs/common';
import { Expose } from 'class-transformer';
import {
  EntityResolver,
  LlmTool,
  ToolCatalog,
  ToolEntityResolver,
  ToolLoopModule,
  ToolProvider,
  type ToolProviderOptions,
} from '@toolloop/core';
import { findingsOf, start } from '../../tools/application.js';

function shelf(options: ToolProviderOptions = {}): Type<{ id: string }> {
  @ToolProvider(options)
  class Shelf {
    @Expose() id = '1';
    @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all' }) look(): number {
      return 1;
    }
  }
  return Shelf;
}

function resolverOf<Entity extends object>(entity: Type<Entity>, name = 'ShelfResolver'): Type {
  @Injectable()
  @ToolEntityResolver(entity)
  class Resolver extends EntityResolver<Entity> {
    override resolve(): undefined {}
  }
  Object.defineProperty(Resolver, 'name', { value: name });
  return Resolver;
}

const withEntity = (entity: Type) => ({
  imports: [ToolLoopModule.forFeature({ entities: [entity] })],
});

describe('a resolver that keeps the application from starting', () => {
  it('stands beside another of the same class', async () => {
    const entity = shelf();
    const providers = [resolverOf(entity, 'One'), resolverOf(entity, 'Two')];
    expect(await findingsOf({ ...withEntity(entity), providers })).toEqual([
      {
        at: 'Two',
        problem: 'One resolves Shelf too, so it is unclear which one to ask.',
        remedy: expect.stringContaining('Keep one'),
      },
    ]);
  });

  it('belongs to two modules as a provider', async () => {
    const entity = shelf();
    const resolver = resolverOf(entity);
    @Module({ providers: [resolver] })
    class Other {}
    const { imports } = withEntity(entity);
    expect(await findingsOf({ imports: [...imports, Other], providers: [resolver] })).toMatchObject(
      [{ at: 'ShelfResolver', problem: expect.stringContaining('several modules') }],
    );
  });

  it('resolves a class that is not a provider of tools', async () => {
    class Row {
      id = '1';
    }
    expect(await findingsOf({ providers: [resolverOf(Row)] })).toEqual([
      {
        at: 'ShelfResolver',
        problem: 'It resolves Row, which is not a provider of tools.',
        remedy: 'Mark Row @ToolProvider(), or remove it.',
      },
    ]);
  });

  it('resolves undefined, as files that import each other in a circle make it', async () => {
    expect(
      await findingsOf({ providers: [resolverOf(undefined as unknown as Type)] }),
    ).toMatchObject([{ at: 'ShelfResolver', problem: expect.stringContaining('circle') }]);
  });

  it('resolves a service', async () => {
    const entity = shelf();
    expect(await findingsOf({ providers: [entity, resolverOf(entity)] })).toMatchObject([
      { at: 'ShelfResolver', problem: expect.stringContaining('which is a service') },
    ]);
  });

  it('has no method that resolves', async () => {
    const entity = shelf();
    class Mute {
      readonly id = '1';
    }
    Reflect.decorate([ToolEntityResolver(entity) as ClassDecorator, Injectable()], Mute);
    expect(await findingsOf({ ...withEntity(entity), providers: [Mute] })).toMatchObject([
      { at: 'Mute', problem: 'It has no method "resolve".' },
    ]);
  });

  it.each(['always', 'on-resume'] as const)(
    'is missing, where an entity is to be found anew %s',
    async (rehydrate) => {
      expect(await findingsOf(withEntity(shelf({ rehydrate })))).toMatchObject([
        {
          at: 'Shelf',
          problem: expect.stringContaining(rehydrate),
          remedy: expect.stringContaining('@ToolEntityResolver(Shelf)'),
        },
      ]);
    },
  );

  it('is missing, where the entity says when in another word', async () => {
    const entity = shelf({ rehydrate: 'sometimes' as never });
    expect(await findingsOf({ ...withEntity(entity), providers: [resolverOf(entity)] })).toEqual([
      {
        at: 'Shelf',
        problem: 'Its rehydrate is "sometimes".',
        remedy: "Give 'never', 'on-resume' or 'always'.",
      },
    ]);
  });
});

describe('a resolver', () => {
  it('makes its entity known, in whatever module it is', async () => {
    const entity = shelf();
    @Module({ providers: [resolverOf(entity)] })
    class Other {}
    const module = await start({ imports: [Other] });
    expect(module.get(ToolCatalog).entities.definitions).toMatchObject([
      { prefix: 'shelf', rehydration: { when: 'always' } },
    ]);
  });

  it('is not asked where its entity says never', async () => {
    const entity = shelf({ rehydrate: 'never' });
    const module = await start({ providers: [resolverOf(entity)] });
    expect(module.get(ToolCatalog).entities.definitions[0]?.rehydration).toBeUndefined();
  });
});
