import { describe, expect, it } from '@jest/globals';
import {
  type CanActivate,
  type ExecutionContext,
  Injectable,
  type InjectionToken,
  Module,
  type Provider,
  Scope,
  UseGuards,
} from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import {
  LlmTool,
  tool,
  ToolCatalog,
  ToolExecutionContext,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { Bench } from '../call/bench.js';
import { findingsOf, RecordingLogger, start } from './application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

@Injectable()
class NoBob implements CanActivate {
  canActivate(host: ExecutionContext): boolean {
    const input = ToolExecutionContext.create(host).getInput();
    return !JSON.stringify(input).includes('Bob');
  }
}

@Injectable()
@UseGuards(NoBob)
@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool(fine) greet(
    @ToolParam('name', { description: 'x', type: 'string' }) name: string,
  ): string {
    return `hello ${name}`;
  }
}

/** Has no guards. */
@Injectable()
@ToolProvider({ namespace: 'open' })
class OpenTools {
  @LlmTool(fine) greet(
    @ToolParam('name', { description: 'x', type: 'string' }) name: string,
  ): string {
    return `hello ${name}`;
  }
}

class BusyTools extends OpenTools {}

/** Has no decorator of its own. */
class SilentCrm {
  greet(name: string): string {
    return `… ${name}`;
  }
}

/** What is warned of while the application starts. */
async function warningsOf(
  provider: Provider,
  replaced = new Map<InjectionToken, unknown>(),
): Promise<unknown[]> {
  const logger = new RecordingLogger();
  await start({ providers: [provider, NoBob], replaced, logger });
  return logger.warnings().map(({ message }) => message);
}

describe('a provider of tools that a test replaces', () => {
  it.each([
    ['a plain object', { greet: (name: string) => `… ${name}` }],
    [
      'an object without a prototype',
      Object.assign(Object.create(null) as object, { greet: (name: string) => `… ${name}` }),
    ],
    ['an instance of a class without tools', new SilentCrm()],
  ])('keeps its tools, and its guards, under %s', async (_, value) => {
    const bench = await Bench.start({
      providers: [CrmTools],
      replaced: new Map([[CrmTools, value]]),
    });
    expect((await bench.run().exec('crm__greet', { name: 'Ada' })).content).toBe('… Ada');
    expect((await bench.run().exec('crm__greet', { name: 'Bob' })).record.error?.code).toBe(
      'forbidden',
    );
  });

  it('keeps its tools under a class without tools', async () => {
    const bench = await Bench.start({ providers: [{ provide: OpenTools, useClass: SilentCrm }] });
    expect((await bench.run().exec('open__greet', { name: 'Ada' })).content).toBe('… Ada');
  });

  it.each<[string, Provider]>([
    ['a class without tools', { provide: CrmTools, useClass: SilentCrm }],
    ['a value', { provide: CrmTools, useValue: new SilentCrm() }],
    ['a factory', { provide: 'CRM', useFactory: () => new CrmTools() }],
    [
      'a request-scoped factory',
      { provide: CrmTools, scope: Scope.REQUEST, useFactory: () => new CrmTools() },
    ],
  ])('is refused where Nest would leave out its guards: as %s', async (_, provider) => {
    expect(await findingsOf({ providers: [provider, NoBob] })).toEqual([
      {
        at: 'CrmTools.greet',
        problem:
          'Nest does not apply NoBob to it: it makes the guards, pipes, interceptors and filters of classes that are listed as they are.',
        remedy:
          'List CrmTools itself in `providers`, or give an instance in its decorator, such as @UseGuards(new NoBob()).',
      },
    ]);
  });

  it.each<[string, Provider]>([
    ['by its class', { provide: 'CRM', useClass: OpenTools }],
    ['by an instance', { provide: 'CRM', useValue: new OpenTools() }],
  ])(
    'keeps its tools where it is declared under a token that is no class: %s',
    async (_, provider) => {
      @Module({ providers: [provider] })
      class CrmModule {}
      const bench = await Bench.start({
        imports: [CrmModule],
        replaced: new Map([['CRM', { greet: (name: string) => `… ${name}` }]]),
      });
      expect((await bench.run().exec('open__greet', { name: 'Ada' })).content).toBe('… Ada');
    },
  );

  it.each([null, undefined, 'none'])(
    'has none where there is %s in its place, which is told',
    async (value) => {
      const logger = new RecordingLogger();
      const module = await start({
        providers: [OpenTools],
        replaced: new Map([[OpenTools, value]]),
        logger,
      });
      expect(module.get(ToolCatalog).list()).toEqual([]);
      const there = value === 'none' ? '"none"' : String(value);
      expect(logger.warnings().map(({ message }) => message)).toEqual([
        `OpenTools: There is ${there} in its place, so its tools are not in the catalog. Provide an instance, or remove the provider.`,
      ]);
    },
  );

  it.each<[string, Provider[], string[]]>([
    ['another class', [{ provide: OpenTools, useExisting: SilentCrm }, SilentCrm], ['OpenTools']],
    ['a class below it', [{ provide: OpenTools, useExisting: BusyTools }, BusyTools], []],
    ['its own class', [OpenTools, { provide: 'OPEN', useExisting: OpenTools }], []],
  ])(
    'has none where an alias stands in its place, which is told, unless that has them: %s',
    async (_, providers, told) => {
      const logger = new RecordingLogger();
      const module = await start({ providers, logger });
      expect(module.get(ToolCatalog).list()).toHaveLength(1 - told.length);
      expect(
        logger
          .warnings()
          .map(({ message }) => String(message).split(': Another provider stands in its place')[0]),
      ).toEqual(told);
    },
  );

  it.each<[string, unknown]>([
    ['an object', { wave: () => 'x' }],
    ['an object whose property is no method', { greet: 'hello' }],
    ['a list', [new OpenTools()]],
    ['an instance of another class', new Date(0)],
  ])('is refused where what replaces it has no such method: %s', async (_, value) => {
    expect(
      await findingsOf({ providers: [OpenTools], replaced: new Map([[OpenTools, value]]) }),
    ).toEqual([
      {
        at: 'OpenTools.greet',
        problem:
          'What is provided in place of OpenTools has no method "greet", so each call would fail.',
        remedy:
          'Give it the method, or leave the provider and override the tool by an interceptor or ToolLoopTestingModule.override().',
      },
    ]);
  });

  it('is refused where what replaces it has no method of a hook', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'hooked' })
    class HookedTools {
      @LlmTool({ ...fine, canCall: 'mayRun' }) run(): string {
        return 'ran';
      }
      mayRun(): boolean {
        return true;
      }
    }
    const problems = await findingsOf({
      providers: [HookedTools],
      replaced: new Map([[HookedTools, { run: () => 'x' }]]),
    });
    expect(problems).toMatchObject([
      { at: 'HookedTools.run', problem: expect.stringContaining('has no method "mayRun"') },
    ]);
  });

  it('may be any object that answers to its methods, such as a proxy', async () => {
    const proxy: unknown = new Proxy(
      {},
      { get: (_, name) => (name === 'then' ? undefined : () => 'from a proxy') },
    );
    const bench = await Bench.start({
      providers: [OpenTools],
      replaced: new Map([[OpenTools, proxy]]),
    });
    expect((await bench.run().exec('open__greet', { name: 'Ada' })).content).toBe('from a proxy');
  });
});

describe('a list of instances with tools', () => {
  it.each<[string, Provider]>([
    ['as a value', { provide: 'TOOLS', useValue: [new OpenTools(), 1, null] }],
    ['from a factory', { provide: 'TOOLS', useFactory: () => [new OpenTools()] }],
  ])('is told, since only providers are searched for tools: %s', async (_, provider) => {
    expect(await warningsOf(provider)).toEqual([
      'Provider "TOOLS": It is a list that holds OpenTools, and the tools of what a list holds are not found. Provide each as its class.',
    ]);
  });

  it('is not told where each is a provider as well, or has no tools', async () => {
    expect(await warningsOf({ provide: 'TOOLS', useValue: [new SilentCrm(), 'x'] })).toEqual([]);
    const logger = new RecordingLogger();
    const all: Provider = {
      provide: 'TOOLS',
      useFactory: (one: OpenTools) => [one],
      inject: [OpenTools],
    };
    await start({ providers: [OpenTools, all], logger });
    expect(logger.warnings()).toEqual([]);
  });
});

describe('a request-scoped factory under a token that is no class', () => {
  it('is told, since nothing shows whether it makes tools', async () => {
    expect(
      await warningsOf({ provide: 'CRM', scope: Scope.REQUEST, useFactory: () => new CrmTools() }),
    ).toEqual([
      'Factory "CRM": Only a request shows what it makes, so tools of that would not be found. If it makes tools, provide it as their class: { provide: CrmTools, scope, useFactory }.',
    ]);
  });

  it.each<[string, Provider]>([
    ['it is a singleton', { provide: 'CRM', useFactory: () => ({}) }],
    [
      'its token is a class',
      { provide: SilentCrm, scope: Scope.REQUEST, useFactory: () => new SilentCrm() },
    ],
    ['it names its class', { provide: 'CRM', scope: Scope.REQUEST, useClass: SilentCrm }],
  ])('is not told where %s', async (_, provider) => {
    expect(await warningsOf(provider)).toEqual([]);
  });
});

describe('a module that is loaded lazily', () => {
  const late = tool({ ...fine, id: 'late__run', execute: () => 'ran' });

  @Module({ providers: [CrmTools], imports: [ToolLoopModule.forFeature({ tools: [late] })] })
  class LazyModule {}

  @Module({ providers: [NoBob] })
  class PlainModule {}

  it('is told, once, when a run opens and its tools are not there', async () => {
    const logger = new RecordingLogger();
    const module = await start({ logger });
    const loop = module.get(ToolLoopService);
    const opened = (): unknown[] => {
      loop.open({ prompt: 'x', actor: { id: 'ada' }, tenant: 'acme' });
      return logger.warnings().map(({ message }) => message);
    };
    const loader = module.get(LazyModuleLoader);
    await loader.load(() => PlainModule);
    expect(opened()).toEqual([]);
    await loader.load(() => LazyModule);
    const told = [
      expect.stringMatching(/^CrmTools: Its module was loaded after/),
      expect.stringMatching(/^ToolLoopModule.forFeature: /),
    ];
    expect(opened()).toEqual(told);
    expect(opened()).toEqual(told);
  });
});
