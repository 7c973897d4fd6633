import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  type INestApplicationContext,
  type NestInterceptor,
  type PipeTransform,
  type Provider,
  Scope,
  UseGuards,
} from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR, APP_PIPE, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import type { JSONSchema7 } from 'json-schema';
import { map, type Observable } from 'rxjs';
import {
  clientTool,
  LlmTool,
  type LoopResult,
  type RawTool,
  rawTool,
  type RunContext,
  subRunTool,
  tool,
  type Tool,
  ToolCatalog,
  ToolExecutionContext,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { sourceTool } from '@toolloop/core/sources';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { findingsOf, RecordingLogger } from './application.js';

/** What was done, although a guard says no. */
let done: string[] = [];
const open: INestApplicationContext[] = [];

afterEach(async () => {
  done = [];
  await Promise.all(open.splice(0).map((app) => app.close()));
});

/** Lives as long as a run, in the guard and in the tools of request scope. */
@Injectable({ scope: Scope.REQUEST })
class Visit {
  notes: string[] = [];
}

@Injectable()
@ToolProvider({ namespace: 'safe' })
class SafeTools {
  private kept = 0;

  @LlmTool({ description: 'Reads.', effect: 'read_only', reveal: 'all' })
  read(): number {
    done.push('read');
    return this.kept;
  }

  @LlmTool({ description: 'Writes.', effect: 'state_change', reveal: 'all' })
  write(@ToolParam('text', { description: 'What' }) words: string): string {
    this.kept += 1;
    done.push(`write ${words}`);
    return `${words} is written`;
  }
}

@Injectable({ scope: Scope.REQUEST })
@ToolProvider({ namespace: 'visit' })
class VisitTools {
  constructor(@Inject(Visit) private readonly visit: Visit) {}

  @LlmTool({ description: 'Tells.', effect: 'read_only', reveal: 'all' })
  notes(): string[] {
    return this.visit.notes;
  }
}

const WORDS: JSONSchema7 = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
};

const written = tool<{ readonly text: string }>({
  id: 'raw__write',
  description: 'Writes.',
  effect: 'state_change',
  input: WORDS,
  reveal: 'all',
  execute: ({ text: words }) => (done.push(`raw ${words}`), `${words} is written`),
});

async function start(
  providers: readonly Provider[],
  { model = new ScriptedModel([]), tools = [written] }: Partial<Started> = {},
) {
  const module = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model, policy: { allow: ['*'], flow: 'off' }, tools })],
    providers: [SafeTools, VisitTools, Visit, ...providers],
  })
    .setLogger(new RecordingLogger())
    .compile();
  const app = await module.init();
  open.push(app);
  const loop: ToolLoopService = app.get(ToolLoopService);
  return {
    app,
    loop,
    of: (called: string, args: object = {}) =>
      loop.call({ tool: called, args: args as never, ...ada }),
  };
}

interface Started {
  readonly model: ScriptedModel;
  readonly tools: readonly RawTool[];
}

const ada = { actor: { id: 'ada' }, tenant: 'acme' };

@Injectable({ scope: Scope.REQUEST })
class NobodyGuard implements CanActivate {
  constructor(@Inject(REQUEST) private readonly run: RunContext) {}

  canActivate(): boolean {
    return this.run.tenant === 'nobody';
  }
}

const CALLS = [
  ['safe__read', {}],
  ['safe__write', { text: 'x' }],
  ['visit__notes', {}],
  ['raw__write', { text: 'x' }],
] as const;

describe('a global guard of request scope that refuses everybody', () => {
  const guard = { provide: APP_GUARD, useClass: NobodyGuard };

  it.each(CALLS)('keeps %s out of a run', async (name, args) => {
    const { loop } = await start([guard], {
      model: new ScriptedModel([calls(call(name, { ...args })), text('done')]),
    });
    const { toolCalls } = await loop.run({ prompt: 'Go.', ...ada });
    expect([toolCalls[0]?.error?.code, done]).toEqual(['forbidden', []]);
  });

  it.each(CALLS)('keeps %s out of a call without a model', async (name, args) => {
    const { of } = await start([guard]);
    expect([(await of(name, args)).record.error?.code, done]).toEqual(['forbidden', []]);
  });

  it.each(CALLS)('keeps %s out of a session, whose list it does not decide', async (name, args) => {
    const { loop } = await start([guard]);
    const session = await loop.session(ada);
    expect((await session.list()).map(({ id }) => id)).toContain(name);
    expect([(await session.call(name, { ...args })).record.error?.code, done]).toEqual([
      'forbidden',
      [],
    ]);
    await session.close();
  });

  it('keeps a sub-run from beginning', async () => {
    const inner = subRunTool({ id: 'sub__ask', description: 'Asks.', tools: ['safe__read'] });
    const model = new ScriptedModel([calls(call('sub__ask', { prompt: 'x' })), text('done')]);
    const { loop } = await start([guard], { model, tools: [inner] });
    const { toolCalls } = await loop.run({ prompt: 'Go.', ...ada });
    expect(toolCalls[0]?.error?.code).toBe('forbidden');
  });

  it('keeps a client from being asked', async () => {
    const pick = clientTool({ id: 'screen__pick', description: 'Picks.', effect: 'read_only' });
    const model = new ScriptedModel([calls(call('screen__pick', {})), text('done')]);
    const { loop } = await start([guard], { model, tools: [pick] });
    const result: LoopResult = await loop.run({ prompt: 'Go.', ...ada });
    expect([result.finishReason, result.toolCalls[0]?.error?.code]).toEqual(['stop', 'forbidden']);
  });
});

/** Two writes, and what was kept and seen of them. */
const script = () => [
  calls(call('safe__write', { text: 'a' })),
  calls(call('raw__write', { text: 'b' })),
  calls(call('safe__read', {})),
  calls(call('visit__notes', {})),
  text('done'),
];

const invoke = () => (done.push('stock'), 7);

@Injectable()
class StockSource extends ToolSource {
  readonly origin = { source: 'stock', trusted: true } as const;

  tools(): Tool[] {
    const inputSchema = { type: 'object', properties: {} } as const;
    return [
      sourceTool({
        id: 'stock__count',
        description: 'Counts.',
        origin: this.origin,
        inputSchema,
        effect: 'state_change',
        invoke,
      }),
    ];
  }
}

describe.each([
  ['a singleton', { useValue: { canActivate: () => false } }],
  ['request-scoped', { useClass: NobodyGuard }],
])('a global guard that is %s', (_scope, provider) => {
  it('keeps the tools of a source out as well', async () => {
    const { of } = await start([StockSource, { provide: APP_GUARD, ...provider }]);
    expect([(await of('stock__count')).record.error?.code, done]).toEqual(['forbidden', []]);
  });
});

describe('a global guard of request scope', () => {
  let made = 0;

  @Injectable({ scope: Scope.REQUEST })
  class Noting implements CanActivate {
    constructor(
      @Inject(Visit) private readonly visit: Visit,
      @Inject(REQUEST) private readonly run: RunContext,
    ) {
      made += 1;
    }

    canActivate(context: ExecutionContext): boolean {
      const { runId } = ToolExecutionContext.create(context).getContext();
      this.visit.notes.push(
        `${context.getClass().name}.${context.getHandler().name} ${this.run.runId === runId}`,
      );
      return true;
    }
  }

  it('is made once per run, in the context of the tools of request scope, and leaves a singleton what it is', async () => {
    made = 0;
    const { loop } = await start([{ provide: APP_GUARD, useClass: Noting }], {
      model: new ScriptedModel([...script(), ...script()]),
    });
    for (const kept of [1, 2]) {
      const { toolCalls } = await loop.run({ prompt: 'Go.', ...ada });
      expect(toolCalls.map(({ result }) => result)).toEqual([
        'a is written',
        'b is written',
        kept,
        [
          'SafeTools.write true',
          'raw__write.execute true',
          'SafeTools.read true',
          'VisitTools.notes true',
        ],
      ]);
    }
    expect(made).toBe(2);
  });

  it('is made once for calls at the same time', async () => {
    made = 0;
    const model = new ScriptedModel([
      calls(call('safe__read', {}), call('visit__notes', {}), call('safe__read', {})),
      text('done'),
    ]);
    const { loop } = await start([{ provide: APP_GUARD, useClass: Noting }], { model });
    const { toolCalls } = await loop.run({ prompt: 'Go.', ...ada });
    expect([toolCalls.map(({ status }) => status), made]).toEqual([
      ['succeeded', 'succeeded', 'succeeded'],
      1,
    ]);
  });

  it('keeps the call out if it cannot be made, and the next one tries again', async () => {
    let attempts = 0;
    const failing = {
      provide: APP_GUARD,
      scope: Scope.REQUEST,
      useFactory: () => {
        attempts += 1;
        if (attempts === 1) throw new Error('The directory is not reachable.');
        return { canActivate: () => true };
      },
    };
    const { loop } = await start([failing]);
    const session = await loop.session(ada);
    const { record } = await session.call('safe__write', { text: 'x' });
    expect([record.error, done]).toMatchObject([
      { code: 'forbidden', safeMessage: 'The call was not permitted.' },
      [],
    ]);
    expect((await session.call('safe__write', { text: 'x' })).ui).toBe('x is written');
  });

  it('keeps the call out by the time limit if it is never made', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'hang' })
    class HangingTools {
      @LlmTool({ description: 'Hangs.', effect: 'read_only', reveal: 'all', timeoutMs: 50 })
      read(): string {
        done.push('read');
        return 'read';
      }
    }
    const never = {
      provide: APP_GUARD,
      scope: Scope.REQUEST,
      useFactory: () => new Promise(() => undefined),
    };
    const { of } = await start([HangingTools, never]);
    expect([(await of('hang__read')).record.error?.code, done]).toEqual(['timeout', []]);
  });
});

describe('global enhancers of request scope', () => {
  @Injectable({ scope: Scope.REQUEST })
  class Upper implements PipeTransform {
    transform(value: unknown): unknown {
      return typeof value === 'string'
        ? value.toUpperCase()
        : { ...(value as object), text: 'RAW' };
    }
  }

  @Injectable({ scope: Scope.TRANSIENT })
  class Masking implements NestInterceptor {
    intercept(_context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
      return next.handle().pipe(map((value) => `masked ${String(value)}`));
    }
  }

  it('change arguments and results as others do', async () => {
    const { of } = await start([
      { provide: APP_PIPE, useClass: Upper },
      { provide: APP_INTERCEPTOR, useClass: Masking },
    ]);
    expect((await of('safe__write', { text: 'abc' })).ui).toBe('masked ABC is written');
    expect((await of('raw__write', { text: 'abc' })).ui).toBe('masked RAW is written');
    expect(done).toEqual(['write ABC', 'raw RAW']);
  });
});

const run = (): RunContext => ({ runId: 'r', ...ada, context: {}, state: new Map() });

describe('an application without them', () => {
  it('compiles the layers of a singleton once, for all runs', async () => {
    const { app } = await start([{ provide: APP_GUARD, useValue: { canActivate: () => true } }]);
    const catalog: ToolCatalog = app.get(ToolCatalog);
    const [first] = catalog.build({ tools: ['safe__read'] });
    expect(first?.layers?.(run())).toBe(first?.layers?.(run()));
  });

  it('has no layers where no enhancer applies', async () => {
    const { app } = await start([]);
    const catalog: ToolCatalog = app.get(ToolCatalog);
    expect(catalog.build({}).map((one) => one.layers?.(run()))).toEqual([
      undefined,
      undefined,
      expect.any(Promise),
      undefined,
    ]);
  });
});

describe('a guard on the class of a raw tool', () => {
  @Injectable()
  class Nobody implements CanActivate {
    canActivate(): boolean {
      return false;
    }
  }

  const declaration = { description: 'Asks.', effect: 'read_only', reveal: 'all' } as const;

  it('keeps its calls out if Nest makes the tool', async () => {
    @Injectable()
    @UseGuards(Nobody)
    class Quotes {
      call(): number {
        done.push('call');
        return 7;
      }
    }
    const { of } = await start([Quotes], {
      tools: [rawTool(Quotes, { ...declaration, as: 'stock__quote' })],
    });
    expect([(await of('stock__quote')).record.error?.code, done]).toEqual(['forbidden', []]);
  });

  it('keeps its calls out as an instance if no one provides the tool', async () => {
    class Quotes {
      @UseGuards(new Nobody())
      call(): number {
        done.push('call');
        return 7;
      }
    }
    const { of } = await start([], {
      tools: [rawTool(Quotes, { ...declaration, as: 'stock__quote' })],
    });
    expect([(await of('stock__quote')).record.error?.code, done]).toEqual(['forbidden', []]);
  });

  it('stops the start as a class if no one provides the tool', async () => {
    @UseGuards(Nobody)
    class Quotes {
      call(): number {
        return 7;
      }
    }
    expect(
      await findingsOf({
        options: { tools: [rawTool(new Quotes(), { ...declaration, as: 'stock__quote' })] },
      }),
    ).toEqual([
      {
        at: 'Quotes.call',
        problem:
          'Nest does not apply Nobody to it: it makes the guards, pipes, interceptors and filters of classes that are listed as they are.',
        remedy:
          'Mark Quotes @Injectable(), list it in `providers` and write rawTool(Quotes), or give an instance: @UseGuards(new Nobody()).',
      },
    ]);
  });
});
