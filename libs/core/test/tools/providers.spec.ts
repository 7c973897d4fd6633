import { describe, expect, it } from '@jest/globals';
import { Injectable, Module, Scope } from '@nestjs/common';
import { LlmTool, ToolCatalog, ToolInput, ToolParam, ToolProvider } from '@toolloop/core';
import { IsString } from 'class-validator';
import { Bench } from '../call/bench.js';
import { start } from './application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

@Injectable()
@ToolProvider({ namespace: 'crm' })
class CrmTools {
  greeting = 'hello';

  static saying(greeting: string): CrmTools {
    return Object.assign(new CrmTools(), { greeting });
  }

  @LlmTool(fine) greet(
    @ToolParam('name', { description: 'x', type: 'string' }) name: string,
  ): string {
    return `${this.greeting} ${name}`;
  }

  @LlmTool(fine) whoAmI(): string {
    return this.constructor.name;
  }
}

@ToolProvider({ namespace: 'vip' })
class VipTools extends CrmTools {
  override greet(name: string): string {
    return `dear ${name}`;
  }
}

/** Wraps the method and, like most such decorators, copies no metadata. */
function Loud(): MethodDecorator {
  return (_prototype, _property, descriptor) => {
    const inner: unknown = descriptor.value;
    const outer = function (this: unknown, ...args: unknown[]): string {
      return `${String(Reflect.apply(inner as () => unknown, this, args))}!`;
    };
    return { ...descriptor, value: outer as never };
  };
}

const saying = (greeting: string) => ({ provide: CrmTools, useValue: CrmTools.saying(greeting) });

const idsOf = async (...args: Parameters<typeof start>): Promise<string[]> =>
  (await start(...args))
    .get(ToolCatalog)
    .list()
    .map(({ id }) => id);

describe('discovery', () => {
  it('derives a namespace from the name of the class', async () => {
    @ToolProvider()
    class OrderDeskService {
      @LlmTool(fine) list(): void {}
    }
    @ToolProvider()
    class HTTPTools {
      @LlmTool(fine) list(): void {}
    }
    @ToolProvider()
    class Tools {
      @LlmTool(fine) list(): void {}
    }
    expect(await idsOf({ providers: [OrderDeskService, HTTPTools, Tools] })).toEqual([
      'order_desk__list',
      'http__list',
      'tools__list',
    ]);
  });

  it('finds what a factory returns, and calls the instance it returned', async () => {
    const bench = await Bench.start({
      providers: [
        { provide: 'CRM', useFactory: () => Promise.resolve(CrmTools.saying('bonjour')) },
      ],
    });
    expect((await bench.run().exec('crm__greet', { name: 'Ada' })).content).toBe('bonjour Ada');
  });

  it('finds what a request-scoped factory will return by the class it is provided as', async () => {
    const factory = {
      provide: CrmTools,
      scope: Scope.REQUEST,
      useFactory: () => CrmTools.saying('bonjour'),
    };
    const bench = await Bench.start({ providers: [factory] });
    expect((await bench.run().exec('crm__greet', { name: 'Ada' })).content).toBe('bonjour Ada');
  });

  it('finds a value, and calls it', async () => {
    const bench = await Bench.start({
      providers: [{ provide: 'CRM', useValue: CrmTools.saying('hola') }],
    });
    expect((await bench.run().exec('crm__greet', { name: 'Ada' })).content).toBe('hola Ada');
  });

  it('finds the class behind `useClass`, not the token', async () => {
    expect(await idsOf({ providers: [{ provide: CrmTools, useClass: VipTools }] })).toEqual([
      'vip__greet',
      'vip__whoAmI',
    ]);
  });

  it('counts an alias once', async () => {
    expect(
      await idsOf({ providers: [CrmTools, { provide: 'ALIAS', useExisting: CrmTools }] }),
    ).toEqual(['crm__greet', 'crm__whoAmI']);
  });

  it('finds the tools of a module that no other module imports', async () => {
    @Module({ providers: [CrmTools] })
    class InnerModule {}
    @Module({ imports: [InnerModule] })
    class OuterModule {}
    expect(await idsOf({ imports: [OuterModule] })).toEqual(['crm__greet', 'crm__whoAmI']);
  });

  it('leaves values alone that are no instances of a class, or only pose as one', async () => {
    const values = [
      Object.create(null),
      { constructor: VipTools },
      VipTools,
      () => 1,
      Symbol('value'),
      null,
      undefined,
      1n,
    ];
    const providers = values.map((useValue: unknown, index) => ({
      provide: `VALUE_${index}`,
      useValue,
    }));
    expect(await idsOf({ providers: [...providers, CrmTools] })).toEqual([
      'crm__greet',
      'crm__whoAmI',
    ]);
  });

  it('never reads a getter of a class', async () => {
    @ToolProvider({ namespace: 'lazy' })
    class LazyTools {
      get connection(): never {
        throw new Error('not connected');
      }

      @LlmTool(fine) run(): string {
        return 'ran';
      }
    }
    expect(await idsOf({ providers: [LazyTools] })).toEqual(['lazy__run']);
  });
});

describe('an inherited tool', () => {
  it('runs the method that overrides it, with the parameters of the one it overrides', async () => {
    const bench = await Bench.start({ providers: [VipTools] });
    expect((await bench.run().exec('vip__greet', { name: 'Ada' })).content).toBe('dear Ada');
    expect((await bench.run().exec('vip__whoAmI')).content).toBe('VipTools');
  });

  it('may be described anew by the class that overrides it', async () => {
    @ToolProvider({ namespace: 'loud' })
    class LoudTools extends CrmTools {
      @LlmTool({ ...fine, description: 'Shouts.', name: 'shout' })
      override greet(
        @ToolParam('name', { description: 'who', type: 'string', maxLength: 3 }) name: string,
      ): string {
        return name.toUpperCase();
      }
    }
    const bench = await Bench.start({ providers: [LoudTools] });
    expect(bench.catalog.list().map(({ id, description }) => [id, description])).toEqual([
      ['loud__shout', 'Shouts.'],
      ['loud__whoAmI', 'Does it.'],
    ]);
    expect((await bench.run().exec('loud__shout', { name: 'Ada' })).content).toBe('ADA');
    expect((await bench.run().exec('loud__shout', { name: 'Grace' })).record.error?.code).toBe(
      'invalid_args',
    );
  });

  it('keeps the options of a provider that marks only its base class', async () => {
    class SubTools extends CrmTools {}
    expect(await idsOf({ providers: [SubTools] })).toEqual(['crm__greet', 'crm__whoAmI']);
  });
});

describe('a decorator above @LlmTool() that replaces the function', () => {
  class NameInput {
    @IsString() name!: string;
  }

  @ToolProvider({ namespace: 'wrapped' })
  class WrappedTools {
    @Loud()
    @LlmTool(fine)
    above(@ToolInput() input: NameInput): string {
      return input.name;
    }

    @LlmTool(fine)
    @Loud()
    below(@ToolInput() input: NameInput): string {
      return input.name;
    }
  }

  it.each(['wrapped__above', 'wrapped__below'])('is honoured in %s', async (id) => {
    const bench = await Bench.start({ providers: [WrappedTools] });
    expect((await bench.run().exec(id, { name: 'Ada' })).content).toBe('Ada!');
  });

  it('may replace the method of one instance after the start', async () => {
    const tools = new CrmTools();
    const bench = await Bench.start({ providers: [{ provide: CrmTools, useValue: tools }] });
    Object.assign(tools, { greet: () => 'replaced' });
    expect((await bench.run().exec('crm__greet', { name: 'Ada' })).content).toBe('replaced');
  });
});

describe('two applications in one process', () => {
  it('do not meet', async () => {
    const [one, other] = [
      await Bench.start({ providers: [CrmTools] }),
      await Bench.start({ providers: [VipTools] }),
    ];
    expect(one.catalog.list().map(({ id }) => id)).toEqual(['crm__greet', 'crm__whoAmI']);
    expect(other.catalog.list().map(({ id }) => id)).toEqual(['vip__greet', 'vip__whoAmI']);
  });

  it('have an instance each of the same class', async () => {
    const [one, other] = [
      await Bench.start({ providers: [saying('a')] }),
      await Bench.start({ providers: [saying('b')] }),
    ];
    expect((await one.run().exec('crm__greet', { name: 'x' })).content).toBe('a x');
    expect((await other.run().exec('crm__greet', { name: 'x' })).content).toBe('b x');
  });
});
