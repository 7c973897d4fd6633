import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createMongoAbility, type MongoAbility } from '@casl/ability';
import {
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  Injectable,
  Logger,
  type ModuleMetadata,
  type NestInterceptor,
  SetMetadata,
  UseGuards,
} from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR, Reflector } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  LlmTool,
  type LoopResult,
  ToolExecutionContext,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { ClsModule, ClsService } from 'nestjs-cls';
import { tap, type Observable } from 'rxjs';

// A CommonJS package that requires Nest's ES modules: Jest loads it only once those are there.
const { ThrottlerGuard, ThrottlerModule } = await import('@nestjs/throttler');

const PING = { description: 'Ping.', effect: 'read_only', reveal: 'all' } as const;

interface Caller {
  readonly id: string;
  readonly may: readonly { readonly action: string; readonly subject: string }[];
}

const NOBODY: Caller = { id: 'nobody', may: [] };

/** Runs a script of calls, one a step, and gives what they came to. */
async function play(
  metadata: ModuleMetadata,
  names: readonly string[],
  { actor = NOBODY, tenant = 'acme' } = {},
): Promise<LoopResult> {
  const model = new ScriptedModel([
    ...names.map((name, n) => calls(call(name, { n }))),
    text('done'),
  ]);
  const loop = ToolLoopModule.forRoot({ model, policy: { allow: ['*'] } });
  const app = await Test.createTestingModule({
    ...metadata,
    imports: [loop, ...(metadata.imports ?? [])],
  }).compile();
  await app.init();
  return app.get(ToolLoopService).run({ prompt: 'Go.', actor, tenant });
}

function shown({ toolCalls }: LoopResult): unknown[] {
  return toolCalls.map(({ result, error }) => result ?? error?.code);
}

beforeEach(() => {
  Logger.overrideLogger(false);
});
afterEach(() => {
  Logger.overrideLogger(['error', 'warn']);
});

function setup(cls: ClsService, context: ExecutionContext): void {
  cls.set('tenant', `from ${ToolExecutionContext.create(context).getContext().tenant}`);
}

describe('nestjs-cls', () => {
  @Injectable()
  @ToolProvider({ namespace: 'cls' })
  class ClsTools {
    constructor(private readonly cls: ClsService) {}

    @LlmTool(PING)
    async tenant(
      @ToolParam('n', { description: 'n', type: 'integer' }) _n: number,
    ): Promise<unknown> {
      await new Promise((resolve) => setImmediate(resolve));
      return this.cls.get('tenant');
    }
  }

  it('carries what its interceptor set up into the tool, through awaits', async () => {
    const imports = [ClsModule.forRoot({ global: true, interceptor: { mount: true, setup } })];
    const runs = await Promise.all(
      ['acme', 'globex'].map((tenant) =>
        play({ imports, providers: [ClsTools] }, ['cls__tenant'], { tenant }),
      ),
    );
    expect(runs.map(shown)).toEqual([['from acme'], ['from globex']]);
  });
});

describe('@nestjs/throttler', () => {
  /**
   * Counts per tenant; there is no request or response to read an address from or to write headers
   * to.
   */
  @Injectable()
  class TenantThrottler extends ThrottlerGuard {
    protected override getRequestResponse(
      context: ExecutionContext,
    ): Record<'req' | 'res', Record<string, unknown>> {
      return {
        req: { ip: ToolExecutionContext.create(context).getContext().tenant },
        res: { header: () => undefined },
      };
    }
  }

  @Injectable()
  @ToolProvider({ namespace: 'slow' })
  class SlowTools {
    @LlmTool(PING)
    ping(@ToolParam('n', { description: 'n', type: 'integer' }) n: number): number {
      return n;
    }
  }

  it('limits the calls of a tenant, and the model reads why', async () => {
    const imports = [ThrottlerModule.forRoot([{ ttl: 60_000, limit: 2 }])];
    const providers = [SlowTools, { provide: APP_GUARD, useClass: TenantThrottler }];
    const result = await play({ imports, providers }, ['slow__ping', 'slow__ping', 'slow__ping']);
    expect(shown(result)).toEqual([0, 1, 'budget_exceeded']);
    expect(JSON.stringify(result.messages)).toContain('Too Many Requests');
  });
});

function abilityOf(actor: unknown): MongoAbility {
  return createMongoAbility(
    (actor as Caller).may.map(({ action, subject }) => ({ action, subject })),
  );
}

describe('a CASL guard', () => {
  const ABILITY = 'ability';
  const CheckAbility = (action: string, subject: string) =>
    SetMetadata(ABILITY, { action, subject });

  @Injectable()
  class AbilityGuard implements CanActivate {
    constructor(private readonly reflector: Reflector) {}

    canActivate(context: ExecutionContext): boolean {
      const needed = this.reflector.get<{ action: string; subject: string }>(
        ABILITY,
        context.getHandler(),
      );
      const { actor } = ToolExecutionContext.create(context).getContext();
      return abilityOf(actor).can(needed.action, needed.subject);
    }
  }

  @Injectable()
  @ToolProvider({ namespace: 'orders' })
  @UseGuards(AbilityGuard)
  class OrderTools {
    @CheckAbility('read', 'Order')
    @LlmTool(PING)
    read(@ToolParam('n', { description: 'n', type: 'integer' }) n: number): number {
      return n;
    }

    @CheckAbility('cancel', 'Order')
    @LlmTool({ ...PING, effect: 'state_change' })
    cancel(@ToolParam('n', { description: 'n', type: 'integer' }) n: number): number {
      return n;
    }
  }

  it('decides by the abilities of the actor', async () => {
    const actor: Caller = { id: 'ada', may: [{ action: 'read', subject: 'Order' }] };
    const result = await play({ providers: [OrderTools] }, ['orders__read', 'orders__cancel'], {
      actor,
    });
    expect(shown(result)).toEqual([0, 'forbidden']);
  });
});

describe('a logging interceptor', () => {
  it('sees every call with its handler, before and after', async () => {
    const lines: string[] = [];
    @Injectable()
    class Logging implements NestInterceptor {
      intercept(context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
        const name = `${context.getClass().name}.${context.getHandler().name}`;
        lines.push(`> ${name}`);
        return next.handle().pipe(tap((value) => lines.push(`< ${name} ${String(value)}`)));
      }
    }

    @Injectable()
    @ToolProvider({ namespace: 'any' })
    class AnyTools {
      @LlmTool(PING)
      ping(@ToolParam('n', { description: 'n', type: 'integer' }) n: number): number {
        return n;
      }
    }

    await play({ providers: [AnyTools, { provide: APP_INTERCEPTOR, useClass: Logging }] }, [
      'any__ping',
    ]);
    expect(lines).toEqual(['> AnyTools.ping', '< AnyTools.ping 0']);
  });
});

describe('a decorator that replaces the method, such as @Transactional()', () => {
  const transactions = new AsyncLocalStorage<string>();

  function Transactional(): MethodDecorator {
    return (_prototype, _property, descriptor: PropertyDescriptor) => {
      const original = descriptor.value as (...args: unknown[]) => unknown;
      descriptor.value = function transactional(this: unknown, ...args: unknown[]): unknown {
        return transactions.run('in a transaction', () => original.apply(this, args));
      };
    };
  }

  @Injectable()
  @ToolProvider({ namespace: 'tx' })
  class TransactionalTools {
    @Transactional()
    @LlmTool(PING)
    above(@ToolParam('n', { description: 'n', type: 'integer' }) n: number): string {
      return `${transactions.getStore()} ${n}`;
    }

    @LlmTool(PING)
    @Transactional()
    below(@ToolParam('n', { description: 'n', type: 'integer' }) n: number): string {
      return `${transactions.getStore()} ${n}`;
    }
  }

  it('works above @LlmTool() and below it', async () => {
    const result = await play({ providers: [TransactionalTools] }, ['tx__above', 'tx__below']);
    expect(shown(result)).toEqual(['in a transaction 0', 'in a transaction 1']);
  });
});
