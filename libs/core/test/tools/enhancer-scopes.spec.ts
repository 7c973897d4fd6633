import { describe, expect, it } from '@jest/globals';
import {
  Body,
  type CallHandler,
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Global,
  Inject,
  Injectable,
  Module,
  type NestInterceptor,
  type PipeTransform,
  Post,
  type Provider,
  Scope,
  type Type,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { Expose } from 'class-transformer';
import { IsInt } from 'class-validator';
import type { JSONSchema7 } from 'json-schema';
import type { Observable } from 'rxjs';
import {
  LlmTool,
  rawTool,
  type RunContext,
  tool,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { RecordingLogger, SilentModel } from './application.js';

/** What the enhancers of a test saw. */
@Injectable()
class Seen {
  readonly names: string[] = [];
}

@Global()
@Module({ providers: [Seen], exports: [Seen] })
class SeenModule {}

/**
 * One class for all four kinds: a constructor that Nest never called has no `seen`, and a call of
 * it fails.
 */
@Catch()
class Enhancer implements CanActivate, PipeTransform, NestInterceptor, ExceptionFilter {
  constructor(@Inject(Seen) private readonly seen: Seen) {}

  canActivate(): boolean {
    this.seen.names.push('guard');
    return true;
  }

  transform(value: unknown): unknown {
    this.seen.names.push('pipe');
    return value;
  }

  intercept(_context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
    this.seen.names.push('interceptor');
    return next.handle();
  }

  catch(): string {
    this.seen.names.push('filter');
    return 'worded';
  }
}

@Injectable()
class Plain extends Enhancer {}

@Injectable({ scope: Scope.TRANSIENT })
class Transient extends Enhancer {}

@Injectable({ scope: Scope.REQUEST })
class OfRequest extends Enhancer {
  constructor(@Inject(Seen) seen: Seen, @Inject(REQUEST) run: RunContext) {
    super(seen);
    if (run.tenant !== 'acme') throw new Error('The request is not the run.');
  }
}

@Injectable({ scope: Scope.REQUEST, durable: true })
class Durable extends Enhancer {}

const KINDS = {
  guard: { token: APP_GUARD, use: UseGuards },
  pipe: { token: APP_PIPE, use: UsePipes },
  interceptor: { token: APP_INTERCEPTOR, use: UseInterceptors },
  filter: { token: APP_FILTER, use: UseFilters },
} as const;

type Kind = keyof typeof KINDS;

const kinds = Object.keys(KINDS) as Kind[];

/** An enhancer of another kind than the one under test would be seen too. */
type Use = (enhancer: Type<Enhancer> | Enhancer) => ClassDecorator & MethodDecorator;

interface Local {
  readonly onClass?: Type<Enhancer> | Enhancer;
  readonly onMethod?: Type<Enhancer> | Enhancer;
}

const SAID = { description: 'Does it.', effect: 'state_change', reveal: 'all' } as const;
const NUMBER: JSONSchema7 = {
  type: 'object',
  properties: { n: { type: 'integer' } },
  required: ['n'],
};

class NumberInput {
  @IsInt() n!: number;
}

/** Zero fails, so that filters have something to word. */
function half(n: number): number {
  if (n === 0) throw new Error('secret');
  return n / 2;
}

/** Every kind of tool, with the enhancers of a binding on it. */
function declarations(kind: Kind, { onClass, onMethod }: Local) {
  const use = KINDS[kind].use as unknown as Use;
  const Class: ClassDecorator = onClass ? use(onClass) : () => undefined;
  const Method: MethodDecorator = onMethod ? use(onMethod) : () => undefined;

  @Class
  @Injectable()
  @ToolProvider({ namespace: 'single' })
  class SingleTools {
    @Method
    @LlmTool(SAID)
    half(@ToolParam('n', { description: 'n', type: 'integer' }) n: number): number {
      return half(n);
    }
  }

  @Class
  @Injectable({ scope: Scope.REQUEST })
  @ToolProvider({ namespace: 'scoped' })
  class ScopedTools {
    @Method
    @LlmTool(SAID)
    half(@ToolInput() { n }: NumberInput): number {
      return half(n);
    }
  }

  @Class
  @Injectable({ scope: Scope.TRANSIENT })
  @ToolProvider({ namespace: 'transient' })
  class TransientTools {
    @Method
    @LlmTool(SAID)
    half(@ToolInput() { n }: NumberInput): number {
      return half(n);
    }
  }

  @Class
  @ToolProvider({ prefix: 'hosted' })
  class Hosted {
    @Expose() readonly id = 'a';

    @Method
    @LlmTool(SAID)
    half(@ToolInput() { n }: NumberInput): number {
      return half(n);
    }
  }

  @ToolProvider({ prefix: 'found' })
  class Found {
    @Expose() readonly id = 'a';

    @LlmTool(SAID)
    half(@ToolInput() { n }: NumberInput): number {
      return half(n);
    }
  }

  @Injectable()
  @ToolProvider({ namespace: 'entities' })
  class EntityTools {
    @LlmTool({ description: 'Finds it.', effect: 'read_only', output: [Hosted] })
    hosted(): Hosted[] {
      return [new Hosted()];
    }

    @LlmTool({ description: 'Finds it.', effect: 'read_only', output: [Found] })
    found(): Found[] {
      return [new Found()];
    }
  }

  @Class
  @Injectable()
  class ProvidedRaw {
    @Method
    call({ n }: { readonly n: number }): number {
      return half(n);
    }
  }

  @Class
  @Injectable({ scope: Scope.REQUEST })
  class ScopedRaw {
    @Method
    call({ n }: { readonly n: number }): number {
      return half(n);
    }
  }

  class PlainRaw {
    call({ n }: { readonly n: number }): number {
      return half(n);
    }
  }

  @Class
  @Controller()
  class Routes {
    @Method
    @Post('half')
    @LlmTool({ ...SAID, name: 'half' })
    half(@Body() { n }: NumberInput): number {
      return half(n);
    }
  }

  const raw = { ...SAID, input: NUMBER };
  const tools = [
    tool<{ readonly n: number }>({ ...raw, id: 'function__half', execute: ({ n }) => half(n) }),
    rawTool(ProvidedRaw, { ...raw, as: 'provided__half' }),
    rawTool(ScopedRaw, { ...raw, as: 'scoped_raw__half' }),
    rawTool(PlainRaw, { ...raw, as: 'plain__half' }),
  ];
  const providers = [SingleTools, ScopedTools, TransientTools, EntityTools, ProvidedRaw, ScopedRaw];
  return { providers, tools, controllers: [Routes], entities: [Hosted], Found };
}

/** Tools that can have enhancers of their own, and those that have none. */
const CLASSES = ['single', 'scoped', 'transient', 'provided', 'scoped_raw', 'routes', 'hosted'];
const ALL = [...CLASSES, 'found', 'function', 'plain'];

interface Binding extends Local {
  readonly global?: (kind: Kind) => Provider;
  readonly byApplication?: true;
}

const of = (provider: object) => (kind: Kind) =>
  ({ provide: KINDS[kind].token, ...provider }) as Provider;

/** The ways to bind an enhancer globally. */
const GLOBALS: Readonly<Record<string, Binding>> = {
  'useClass, a singleton': { global: of({ useClass: Plain }) },
  'useClass, request-scoped by its class': { global: of({ useClass: OfRequest }) },
  'useClass, request-scoped by its provider': {
    global: of({ useClass: Plain, scope: Scope.REQUEST }),
  },
  'useClass, durable': { global: of({ useClass: Durable }) },
  'useClass, transient by its class': { global: of({ useClass: Transient }) },
  'useClass, transient by its provider': {
    global: of({ useClass: Plain, scope: Scope.TRANSIENT }),
  },
  'useFactory, a singleton': {
    global: of({ inject: [Seen], useFactory: (seen: Seen) => new Plain(seen) }),
  },
  'useFactory, request-scoped': {
    global: of({
      inject: [Seen, REQUEST],
      scope: Scope.REQUEST,
      useFactory: (seen: Seen, run: RunContext) => new OfRequest(seen, run),
    }),
  },
  'useFactory, transient': {
    global: of({
      inject: [Seen],
      scope: Scope.TRANSIENT,
      useFactory: (seen: Seen) => new Plain(seen),
    }),
  },
  'useExisting, of a singleton': { global: of({ useExisting: Plain }) },
  'useExisting, of a request-scoped class': { global: of({ useExisting: OfRequest }) },
  'useExisting, of a transient class': { global: of({ useExisting: Transient }) },
  'useGlobal… of the application': { byApplication: true },
};

const LOCALS: Readonly<Record<string, (kind: Type<Enhancer> | Enhancer) => Local>> = {
  'on its class': (enhancer) => ({ onClass: enhancer }),
  'on its method': (enhancer) => ({ onMethod: enhancer }),
};

/** A started application, and one call of one of its tools. */
async function started(kind: Kind, { global, byApplication, ...local }: Binding) {
  const { entities, tools, ...declared } = declarations(kind, local);
  const module = await Test.createTestingModule({
    imports: [
      SeenModule,
      ToolLoopModule.forRoot({
        model: new SilentModel(),
        policy: { allow: ['*'], flow: 'off' },
        tools,
      }),
      ToolLoopModule.forFeature({ entities, imports: [] }),
    ],
    controllers: declared.controllers,
    providers: [
      ...declared.providers,
      Plain,
      OfRequest,
      Transient,
      ...(global ? [global(kind)] : []),
    ],
  })
    .setLogger(new RecordingLogger())
    .compile();
  const app = module.createNestApplication();
  const seen = app.get(Seen);
  if (byApplication) {
    const one = new Plain(seen);
    ({
      guard: () => app.useGlobalGuards(one),
      pipe: () => app.useGlobalPipes(one),
      interceptor: () => app.useGlobalInterceptors(one),
      filter: () => app.useGlobalFilters(one),
    })[kind]();
  }
  await app.init();
  const loop: ToolLoopService = app.get(ToolLoopService);
  const session = await loop.session({ actor: { id: 'ada' }, tenant: 'acme' });
  for (const finder of ['entities__hosted', 'entities__found'])
    expect((await session.call(finder)).record.status).toBe('succeeded');
  const ran = async (name: string): Promise<readonly string[]> => {
    seen.names.length = 0;
    const id = { hosted: 'hosted_a_half', found: 'found_a_half' }[name] ?? `${name}__half`;
    const { record } = await session.call(id, { n: kind === 'filter' ? 0 : 4 });
    const answer = record.result ?? record.error;
    if (kind === 'filter')
      expect([name, answer]).toEqual([name, { code: 'execution_failed', safeMessage: 'worded' }]);
    else expect([name, answer]).toEqual([name, 2]);
    return [...seen.names];
  };
  return { ran, close: () => app.close() };
}

/** The enhancers that ran for each tool. */
async function seenBy(
  kind: Kind,
  binding: Binding,
  names: readonly string[],
): Promise<[string, readonly string[]][]> {
  const { ran, close } = await started(kind, binding);
  const found: [string, readonly string[]][] = [];
  for (const name of names)
    found.push([name, await ran(name).catch((error: unknown) => [String(error).slice(0, 400)])]);
  await close();
  return found;
}

const eachSaw = (kind: Kind, names: readonly string[]) => names.map((name) => [name, [kind]]);

describe.each(kinds)('a global %s', (kind) => {
  it.each(Object.keys(GLOBALS))('runs for every tool if it is bound by %s', async (name) => {
    expect(await seenBy(kind, GLOBALS[name] ?? {}, ALL)).toEqual(eachSaw(kind, ALL));
  });
});

describe.each(kinds)('a %s of a tool', (kind) => {
  describe.each(Object.keys(LOCALS))('%s', (place) => {
    const at = (enhancer: Type<Enhancer>) => LOCALS[place]?.(enhancer) ?? {};
    it.each([
      ['a singleton', Plain],
      ['request-scoped', OfRequest],
      ['durable', Durable],
      ['transient', Transient],
    ])('runs if it is %s', async (_scope, enhancer) => {
      expect(await seenBy(kind, at(enhancer), CLASSES)).toEqual(eachSaw(kind, CLASSES));
    });
  });
});
