import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  ClassSerializerInterceptor,
  type ExecutionContext,
  Injectable,
  type INestApplicationContext,
  type NestInterceptor,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { Expose } from 'class-transformer';
import type { JSONSchema7 } from 'json-schema';
import { map, type Observable, of as just } from 'rxjs';
import {
  LlmTool,
  type LlmToolOptions,
  tool,
  ToolInterceptor,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import type { ToolInvocation } from '@toolloop/core/contracts';
import { findingsOf, RecordingLogger, SilentModel } from '../tools/application.js';

const open: INestApplicationContext[] = [];
let done: string[] = [];

afterEach(async () => {
  done = [];
  await Promise.all(open.splice(0).map((app) => app.close()));
});

class Order {
  @Expose() id!: string;
  @Expose() status!: string;
  @Expose() total!: number;
  margin = 0.4;
}

@ToolProvider({ prefix: 'parcel' })
class Parcel {
  @Expose() readonly id = 'p1';
  @Expose() readonly weight = 3;

  @LlmTool({ description: 'Tracks it.', effect: 'read_only', reveal: 'all' })
  track(): string {
    return 'on its way';
  }
}

const order = (id = 'o-7'): Order => Object.assign(new Order(), { id, status: 'new', total: 30 });

const plain = (): object => ({ id: 'o-7', status: 'new', total: 30, margin: 0.4 });

const read = { description: 'Reads.', effect: 'read_only' } as const;
const ORDER_SCHEMA: JSONSchema7 = {
  type: 'object',
  properties: { id: { type: 'string' }, status: { type: 'string' }, total: { type: 'number' } },
};
const FIELDS = ['id', 'status', 'total'];

@Injectable()
@ToolProvider({ namespace: 'orders' })
class OrderTools {
  @LlmTool({ ...read, output: Order }) object(): Order {
    return order();
  }

  @LlmTool({ ...read, output: [Order] }) list(): Order[] {
    return [order(), order('o-8')];
  }

  @LlmTool({ ...read, output: { type: Order, nullable: true } }) nobody(): Order | null {
    return null;
  }

  @LlmTool({ ...read, output: Order }) async *stream() {
    yield await Promise.resolve(order('o-1'));
    return order();
  }

  @LlmTool({ ...read, output: Parcel }) entity(): Parcel {
    return new Parcel();
  }

  @LlmTool({ ...read, reveal: FIELDS }) fields(): object {
    return plain();
  }

  @LlmTool({ ...read, reveal: FIELDS }) fieldsOfList(): object[] {
    return [plain()];
  }

  @LlmTool({ ...read, reveal: 'all', outputSchema: { ...ORDER_SCHEMA, required: ['id'] } })
  strict(): object {
    return { id: 'o-7', status: 'new', total: 30 };
  }

  @LlmTool({ ...read, reveal: 'all', outputSchema: ORDER_SCHEMA }) open(): object {
    return { id: 'o-7', status: 'new', total: 30 };
  }

  @LlmTool({ ...read, reveal: 'all', outputSchema: { type: 'string' } }) text(): string {
    return 'all well';
  }

  @LlmTool({ ...read, reveal: 'all', outputSchema: { type: 'number' } }) count(): number {
    return 7;
  }

  @LlmTool({ ...read, reveal: 'all' }) anything(): object {
    return { id: 'o-7' };
  }

  @LlmTool({ ...read, reveal: 'all' }) anyText(): string {
    return 'all well';
  }

  @LlmTool({ ...read, reveal: [] }) nothing(): void {
    done.push('nothing');
  }

  @LlmTool({ ...read, effect: 'state_change', output: Order }) write(): Order {
    done.push('write');
    return order();
  }
}

const raw = tool({ id: 'raw__order', ...read, reveal: FIELDS, execute: () => plain() });

function interceptor(name: string, change: (value: unknown) => unknown): Type<NestInterceptor> {
  @Injectable()
  class Changing implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
      return next.handle().pipe(map(change));
    }
  }
  Object.defineProperty(Changing, 'name', { value: name });
  return Changing;
}

type Declared = Partial<ToolLoopOptions> & { readonly tools?: ToolLoopOptions['tools'] };

async function start(
  interceptors: readonly Type[],
  { tools = [raw], ...options }: Declared = {},
  more: readonly Type[] = [],
) {
  const logger = new RecordingLogger();
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new SilentModel(),
        policy: { allow: ['*'], flow: 'off' },
        tools,
        ...options,
        providers: more.filter((type) => type.prototype instanceof ToolInterceptor),
      }),
    ],
    providers: [
      OrderTools,
      ...more.filter((type) => !(type.prototype instanceof ToolInterceptor)),
      ...interceptors.map((type) => ({ provide: APP_INTERCEPTOR, useClass: type })),
    ],
  })
    .setLogger(logger)
    .compile();
  const app = await module.init();
  open.push(app);
  const loop: ToolLoopService = app.get(ToolLoopService);
  const of = (called: string) =>
    loop.call({
      tool: called.includes('__') ? called : `orders__${called}`,
      actor: { id: 'ada' },
      tenant: 'acme',
    });
  const saw = async (called: string): Promise<unknown> => {
    const { record, ui } = await of(called);
    return record.error?.code ?? ui;
  };
  return { of, saw, logger };
}

const ORDER = { id: 'o-7', status: 'new', total: 30 };
const LOST = 'invalid_output';

/** Of each tool: what the model reads of what it returns itself. */
const PLAIN: Readonly<Record<string, unknown>> = {
  object: ORDER,
  list: [ORDER, { ...ORDER, id: 'o-8' }],
  nobody: null,
  stream: ORDER,
  entity: { id: 'p1', weight: 3 },
  fields: ORDER,
  fieldsOfList: [ORDER],
  raw__order: ORDER,
  strict: ORDER,
  open: ORDER,
  text: 'all well',
  count: 7,
  anything: { id: 'o-7' },
  anyText: 'all well',
  nothing: null,
};

const names = Object.keys(PLAIN);
/** Those that declare no form. */
const UNDECLARED = new Set(['anything', 'anyText', 'nothing']);

type Change = (value: unknown) => unknown;

/** What wrappers make of a result. */
const WRAPPERS: readonly (readonly [string, Change])[] = [
  ['under a name of its own', (data) => ({ statusCode: 200, data })],
  ['beside a name that the result has too', (data) => ({ status: 'ok', data })],
  ['as a copy', (data) => ({ status: 'ok', result: structuredClone(data) })],
  ['two levels deep', (data) => ({ meta: {}, response: { data } })],
];

describe.each(WRAPPERS)('a global interceptor that wraps each result %s', (_how, wrap) => {
  const wrapper = interceptor('ResponseWrapper', wrap);
  /** Of tools that declare no form the whole is shown. */
  const shown = (name: string): unknown => (name === 'nothing' ? null : wrap(PLAIN[name]));

  it('leaves no result that has lost the form which its tool declares', async () => {
    const { saw } = await start([wrapper]);
    const found = Object.fromEntries(
      await Promise.all(names.map(async (name) => [name, await saw(name)] as const)),
    );
    expect(found).toEqual(
      Object.fromEntries(names.map((name) => [name, UNDECLARED.has(name) ? shown(name) : LOST])),
    );
  });

  it('changes nothing where it is left out of all tools', async () => {
    const { saw } = await start([wrapper], { interceptors: { except: [wrapper] } });
    expect(
      Object.fromEntries(
        await Promise.all(names.map(async (name) => [name, await saw(name)] as const)),
      ),
    ).toEqual(PLAIN);
  });
});

interface Plain extends Record<string, unknown> {
  readonly total?: unknown;
}

function masking(change: (one: Plain) => unknown): Type<NestInterceptor> {
  return interceptor('Mask', (value) => each(value, change));
}

function each(value: unknown, change: (one: Plain) => unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => change(one as Plain));
  return value === null || value === undefined ? value : change(value as Plain);
}

/** Masks, each with what is shown of an order. */
const MASKS: readonly (readonly [string, Type, object])[] = [
  [
    'takes a field away',
    masking(({ total: _hidden, ...rest }) => rest),
    { id: 'o-7', status: 'new' },
  ],
  ['takes all fields but one', masking(({ id }) => ({ id })), { id: 'o-7' }],
  ['changes a value', masking((one) => ({ ...one, status: '***' })), { ...ORDER, status: '***' }],
  [
    'changes a value in place',
    masking((one) => Object.assign(one, { status: '***' })),
    { ...ORDER, status: '***' },
  ],
  ['adds what is not declared', masking((one) => ({ ...one, links: { self: '/o-7' } })), ORDER],
  [
    'takes a field and adds a list',
    masking(({ total: _hidden, ...one }) => ({ ...one, hidden: ['total'] })),
    { id: 'o-7', status: 'new' },
  ],
  ['serializes', ClassSerializerInterceptor, ORDER],
];

describe.each(MASKS)('a global interceptor that %s', (_how, mask, shown) => {
  it('holds for every tool of orders', async () => {
    const { saw } = await start([mask]);
    const single = ['object', 'stream', 'fields', 'raw__order'];
    expect(await Promise.all(single.map((name) => saw(name)))).toEqual(single.map(() => shown));
    expect(await saw('list')).toEqual([shown, { ...shown, id: 'o-8' }]);
    expect(await saw('nobody')).toBeNull();
  });
});

const problems = ({ logger }: { logger: RecordingLogger }) =>
  logger
    .errors()
    .map(({ message }) => String(message))
    .join('\n');

describe('a result that has lost its form', () => {
  const wrapper = interceptor('ResponseWrapper', (data) => ({ statusCode: 200, data }));
  const logging = interceptor('Logging', (value) => value);

  it('tells that the tool ran, and names the interceptor and the remedy in the log', async () => {
    const started = await start([logging, wrapper, logging]);
    for (const name of ['object', 'list', 'strict']) {
      expect((await started.of(name)).record.error).toMatchObject({
        code: 'invalid_output',
        safeMessage: 'The tool ran, but its result cannot be shown.',
      });
    }
    const said = problems(started);
    for (const name of ['object', 'list', 'strict'])
      expect(said).toContain(
        `The result of orders__${name} does not match its declaration: ResponseWrapper made`,
      );
    expect(said).toContain('forRoot({ interceptors: { except: [ResponseWrapper] } })');
    expect(said).not.toContain('Logging made');
  });

  it('is told of a write once, whose effect took place', async () => {
    const { of } = await start([wrapper]);
    expect((await of('write')).record).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_output' },
    });
    expect(done).toEqual(['write']);
  });

  it('brings no tools of an entity', async () => {
    const { of } = await start([wrapper]);
    expect((await of('entity')).injectedTools).toEqual([]);
  });

  it('may come from an interceptor that answers in the place of the method', async () => {
    @Injectable()
    class Caching implements NestInterceptor {
      intercept(): Observable<unknown> {
        return just({ statusCode: 200, data: order() });
      }
    }
    const started = await start([Caching]);
    expect(await started.saw('object')).toBe(LOST);
    expect(problems(started)).toContain('Caching made');
  });

  it('may come from a ToolInterceptor', async () => {
    @Injectable()
    class Enveloping extends ToolInterceptor {
      override async intercept(
        _invocation: ToolInvocation,
        next: () => Promise<unknown>,
      ): Promise<unknown> {
        return { data: await next() };
      }
    }
    const started = await start([], {}, [Enveloping]);
    expect(await started.saw('object')).toBe(LOST);
    expect(problems(started)).toContain('Enveloping made');
  });

  it('is not told where the method itself returned what is not declared', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'odd' })
    class OddTools {
      @LlmTool({ ...read, output: Order }) empty(): object {
        return { nothing: 'of it' };
      }

      @LlmTool({ ...read, output: Order }) wrong(): number {
        return 7;
      }
    }
    const repairing = interceptor('Repairing', (value) => (value === 7 ? order() : value));
    const { saw } = await start([repairing], {}, [OddTools]);
    expect([await saw('odd__empty'), await saw('odd__wrong')]).toEqual([{}, ORDER]);
  });
});

function leftTools(options: Partial<LlmToolOptions>, own: readonly Type[] = []): Type {
  @Injectable()
  @ToolProvider({ namespace: 'left' })
  class LeftTools {
    @UseInterceptors(...own)
    @LlmTool({ ...read, output: Order, ...options } as LlmToolOptions)
    order(): Order {
      return order();
    }

    @LlmTool({ ...read, output: Order })
    other(): Order {
      return order();
    }
  }
  return LeftTools;
}

describe('an interceptor that is left out', () => {
  const wrapper = interceptor('ResponseWrapper', (data) => ({ statusCode: 200, data }));
  class OwnWrapper extends wrapper {}

  it('is left out of one tool alone, if the tool says so', async () => {
    const { saw } = await start([wrapper], {}, [
      leftTools({ interceptors: { except: [wrapper] } }),
    ]);
    expect([await saw('left__order'), await saw('left__other')]).toEqual([ORDER, LOST]);
  });

  it('is left out of a raw tool that says so', async () => {
    const own = tool({
      id: 'raw__own',
      ...read,
      reveal: FIELDS,
      interceptors: { except: [wrapper] },
      execute: () => plain(),
    });
    const { saw } = await start([wrapper], { tools: [raw, own] });
    expect([await saw('raw__own'), await saw('raw__order')]).toEqual([ORDER, LOST]);
  });

  it('is left out together with its subclasses, and on a method as well', async () => {
    const { saw } = await start([OwnWrapper], { interceptors: { except: [wrapper] } }, [
      leftTools({}, [OwnWrapper]),
    ]);
    expect(await saw('left__order')).toEqual(ORDER);
  });

  it('leaves the others in', async () => {
    const mask = interceptor('Mask', (value) => ({ ...(value as object), status: '***' }));
    const { saw } = await start([wrapper, mask], { interceptors: { except: [wrapper] } });
    expect(await saw('object')).toEqual({ ...ORDER, status: '***' });
  });

  it('must be a class of an interceptor of Nest', async () => {
    class Timing extends ToolInterceptor {
      override intercept(
        _invocation: ToolInvocation,
        next: () => Promise<unknown>,
      ): Promise<unknown> {
        return next();
      }
    }
    const except = [Order, Timing, wrapper, new wrapper()] as unknown as Type<NestInterceptor>[];
    const found = await findingsOf({
      options: { interceptors: { except } },
      providers: [leftTools({ interceptors: { except: [Order] as never } })],
    });
    expect(found).toContainEqual({
      at: 'ToolLoopModule interceptors',
      problem:
        'Its "except" has what is no class of an interceptor of Nest: Order, Timing, an object.',
      remedy: 'Give a list of interceptor classes: [ResponseWrapper].',
    });
    expect(found).toContainEqual({
      at: 'LeftTools.order interceptors',
      problem: 'Its "except" has what is no class of an interceptor of Nest: Order.',
      remedy: 'Give a list of interceptor classes: [ResponseWrapper].',
    });
  });
});
