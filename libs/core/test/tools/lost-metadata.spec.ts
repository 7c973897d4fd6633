import { describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  type CanActivate,
  Catch,
  type ExceptionFilter,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  type PipeTransform,
  type Provider,
  SetMetadata,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { Transactional } from '@mikro-orm/decorators/legacy';
import { LlmTool, rawTool, ToolLoopModule, ToolLoopService, ToolProvider } from '@toolloop/core';
import { Expose } from 'class-transformer';
import type { Observable } from 'rxjs';
import { type Declared, findingsOf, start } from './application.js';

@Injectable()
class Refusing implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

@Injectable()
class Trimming implements PipeTransform {
  transform(value: unknown): unknown {
    return value;
  }
}

@Injectable()
class Masking implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle();
  }
}

@Catch()
class Hiding implements ExceptionFilter {
  catch(): void {
    // tells nothing
  }
}

const PAYS = { description: 'Pays.', effect: 'state_change', reveal: 'all' } as const;

/** A decorator of a method, and the name under which a finding tells of it. */
interface Decorated {
  readonly written: string;
  readonly decorator: MethodDecorator;
  readonly name: string;
}

const DECORATORS: readonly Decorated[] = [
  { written: '@UseGuards(Refusing)', decorator: UseGuards(Refusing), name: 'Refusing' },
  { written: '@UseGuards(new Refusing())', decorator: UseGuards(new Refusing()), name: 'Refusing' },
  { written: '@UsePipes(Trimming)', decorator: UsePipes(Trimming), name: 'Trimming' },
  {
    written: '@UseInterceptors(new Masking())',
    decorator: UseInterceptors(new Masking()),
    name: 'Masking',
  },
  { written: '@UseFilters(Hiding)', decorator: UseFilters(Hiding), name: 'Hiding' },
  {
    written: "@SetMetadata('roles', ['admin'])",
    decorator: SetMetadata('roles', ['admin']),
    name: 'metadata "roles"',
  },
];

/** Puts a function in the place of the method, as decorators of ORMs and caches do. */
const wrapped: MethodDecorator = (_target, _key, descriptor) => {
  const original = descriptor.value as unknown as (...args: unknown[]) => unknown;
  Object.assign(descriptor, {
    value: function (this: unknown, ...args: unknown[]) {
      return original.apply(this, args);
    },
  });
};

/** Does so too, and takes all metadata along. */
const wrappedWell: MethodDecorator = (target, key, descriptor) => {
  const original = descriptor.value as unknown as object;
  wrapped(target, key, descriptor);
  const replaced = descriptor.value as unknown as object;
  for (const name of Reflect.getMetadataKeys(original) as string[])
    Reflect.defineMetadata(name, Reflect.getMetadata(name, original), replaced);
};

async function problems(declared: Declared): Promise<readonly string[]> {
  return (await findingsOf(declared)).map(({ at, problem }) => `${at}: ${problem}`);
}

/** Replaces the method of a class, as decorators of tracing do. */
const traced: ClassDecorator = ({ prototype }) => {
  const original: unknown = Reflect.get(prototype as object, 'pay');
  if (typeof original !== 'function') throw new Error('The class has no method pay.');
  Object.assign(prototype as object, {
    pay: function (this: unknown): unknown {
      return Reflect.apply(original, this, []);
    },
  });
};

/** The code of the error of a call, or `succeeded`. */
async function callOf(providers: readonly Provider[]): Promise<string> {
  const app = await start({ providers: [...providers, Refusing] });
  const { record } = await app.get(ToolLoopService).call({
    tool: 'bank__pay',
    args: {},
    actor: { id: 'ada' },
    tenant: 'acme',
    argsOrigin: 'actor',
  });
  return record.error?.code ?? record.status;
}

describe.each(DECORATORS)('a method with $written', ({ decorator, name }) => {
  class Base {
    @decorator
    @LlmTool(PAYS)
    pay(): string {
      return 'paid';
    }
  }
  const overridden = `Bank.pay: It overrides Base.pay, and Nest does not apply ${name} to an override.`;
  const replaced = `Bank.pay: A decorator puts another function in the place of the method, and Nest does not apply ${name} to it.`;

  it('keeps the application from starting if a subclass overrides it without the decorator', async () => {
    @ToolProvider({ namespace: 'bank' })
    class Bank extends Base {
      override pay(): string {
        return 'paid';
      }
    }
    expect(await problems({ providers: [Bank] })).toContain(overridden);
  });

  it('keeps the application from starting if a subclass of a subclass overrides it', async () => {
    class Middle extends Base {}
    @ToolProvider({ namespace: 'bank' })
    class Bank extends Middle {
      override pay(): string {
        return 'paid';
      }
    }
    expect(await problems({ providers: [Bank] })).toContain(overridden);
  });

  it('keeps the application from starting if an entity overrides it', async () => {
    class Owned {
      @Expose() readonly id = 'a';
      @decorator
      @LlmTool(PAYS)
      pay(): string {
        return 'paid';
      }
    }
    @ToolProvider({ prefix: 'account' })
    class Account extends Owned {
      override pay(): string {
        return 'paid';
      }
    }
    @ToolProvider({ namespace: 'bank' })
    class Bank {
      @LlmTool({ description: 'Finds it.', effect: 'read_only', output: Account })
      find(): Account {
        return new Account();
      }
    }
    const imports = [ToolLoopModule.forFeature({ entities: [Account], imports: [] })];
    expect(await problems({ providers: [Bank], imports })).toContain(
      `Account.pay: It overrides Owned.pay, and Nest does not apply ${name} to an override.`,
    );
  });

  it('keeps the application from starting if the class of a raw tool overrides it', async () => {
    class Called {
      @decorator
      call(): string {
        return 'paid';
      }
    }
    @Injectable()
    class Pay extends Called {
      override call(): string {
        return 'paid';
      }
    }
    const tools = [rawTool(Pay, { ...PAYS, as: 'raw__pay' })];
    expect(await problems({ providers: [Pay], options: { tools } })).toContain(
      `Pay.call: It overrides Called.call, and Nest does not apply ${name} to an override.`,
    );
  });

  it('keeps the application from starting if a decorator above replaces the method', async () => {
    @ToolProvider({ namespace: 'bank' })
    class Bank {
      @wrapped
      @decorator
      @LlmTool(PAYS)
      pay(): string {
        return 'paid';
      }
    }
    expect(await problems({ providers: [Bank] })).toContain(replaced);
  });

  it('keeps the application from starting if a decorator replaces the method before it is marked as a tool', async () => {
    @ToolProvider({ namespace: 'bank' })
    class Bank {
      @LlmTool(PAYS)
      @wrapped
      @decorator
      pay(): string {
        return 'paid';
      }
    }
    expect(await problems({ providers: [Bank] })).toContain(replaced);
  });

  it('keeps the application from starting if a decorator of the class replaces all methods', async () => {
    @ToolProvider({ namespace: 'bank' })
    @traced
    class Bank {
      @decorator
      @LlmTool(PAYS)
      pay(): string {
        return 'paid';
      }
    }
    expect(await problems({ providers: [Bank] })).toContain(replaced);
  });

  it.each([
    ['stands above the one that replaces the method', [decorator, wrapped, LlmTool(PAYS)]],
    ['stands below one that takes its metadata along', [wrappedWell, decorator, LlmTool(PAYS)]],
  ])('keeps the decorator if it %s', async (_case, decorators) => {
    @ToolProvider({ namespace: 'bank' })
    class Bank {
      @all(decorators)
      pay(): string {
        return 'paid';
      }
    }
    await expect(start({ providers: [Bank] })).resolves.toBeDefined();
  });

  it.each([
    ['repeats the decorator', [decorator]],
    ['is a tool of its own', [LlmTool(PAYS)]],
  ])('lets a subclass override it that %s', async (_case, decorators) => {
    @ToolProvider({ namespace: 'bank' })
    class Bank extends Base {
      @all(decorators)
      override pay(): string {
        return 'paid';
      }
    }
    await expect(start({ providers: [Bank] })).resolves.toBeDefined();
  });
});

/** Applies decorators as they are written, the last one first. */
function all(decorators: readonly MethodDecorator[]): MethodDecorator {
  return (target, key, descriptor) =>
    decorators
      .toReversed()
      .reduce((before, decorate) => decorate(target, key, before) ?? before, descriptor);
}

describe('a guard of a tool', () => {
  it('is lost on one of two that a decorator leaves behind, which the start names', async () => {
    @ToolProvider({ namespace: 'bank' })
    class Bank {
      @UseGuards(new Trusting())
      @wrapped
      @UseGuards(Refusing)
      @LlmTool(PAYS)
      pay(): string {
        return 'paid';
      }
    }
    expect(await problems({ providers: [Bank] })).toEqual([
      'Bank.pay: A decorator puts another function in the place of the method, and Nest does not apply Refusing to it.',
    ]);
  });

  it('is named below @Transactional() of MikroORM, and holds above it', async () => {
    const transactional = Transactional({ context: () => undefined as never });
    @ToolProvider({ namespace: 'bank' })
    class Unguarded {
      @all([transactional, UseGuards(Refusing), LlmTool(PAYS)])
      // oxlint-disable-next-line typescript/require-await -- the decorator asks for it
      async pay(): Promise<string> {
        return 'paid';
      }
    }
    @ToolProvider({ namespace: 'bank' })
    class Guarded {
      @all([UseGuards(Refusing), LlmTool(PAYS), transactional])
      // oxlint-disable-next-line typescript/require-await -- the decorator asks for it
      async pay(): Promise<string> {
        return 'paid';
      }
    }
    expect(await problems({ providers: [Unguarded] })).toEqual([
      'Unguarded.pay: A decorator puts another function in the place of the method, and Nest does not apply Refusing to it.',
    ]);
    expect(await callOf([Guarded])).toBe('forbidden');
  });

  it('holds for a method that a subclass inherits as it is', async () => {
    class Base {
      @UseGuards(Refusing)
      @LlmTool(PAYS)
      pay(): string {
        return 'paid';
      }
    }
    @ToolProvider({ namespace: 'bank' })
    class Bank extends Base {}
    expect(await callOf([Bank])).toBe('forbidden');
  });
});

class Trusting implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}
