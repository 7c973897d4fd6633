import { describe, expect, it } from '@jest/globals';
import { type CanActivate, type ExecutionContext, Injectable, Module, type Provider, Scope, UseGuards } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { LlmTool, tool, ToolCatalog, ToolExecutionContext, ToolLoopModule, ToolLoopService, ToolParam, ToolProvider } from '@toolloop/core';
import { Bench } from '../execution/bench.js';
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
  @LlmTool(fine) greet(@ToolParam('name', { description: 'x', type: 'string' }) name: string): string {
    return `hello ${name}`;
  }
}

/** Has no decorator of its own. */
class SilentCrm {
  greet(name: string): string {
    return `… ${name}`;
  }
}

/** What is noted in the log while the application starts. */
async function notesOf(provider: Provider): Promise<unknown[]> {
  const logger = new RecordingLogger();
  await start({ providers: [provider, NoBob], logger });
  return logger.lines.filter(({ level }) => level === 'debug').map(({ message }) => message);
}

describe('a provider of tools that a test replaces', () => {
  it.each([
    ['a plain object', { greet: (name: string) => `… ${name}` }],
    ['an object without a prototype', Object.assign(Object.create(null) as object, { greet: (name: string) => `… ${name}` })],
    ['an instance of a class without tools', new SilentCrm()],
  ])('keeps its tools, and its guards, under %s', async (_, value) => {
    const bench = await Bench.start({ providers: [CrmTools], replaced: new Map([[CrmTools, value]]) });
    expect((await bench.run().exec('crm__greet', { name: 'Ada' })).content).toBe('… Ada');
    expect((await bench.run().exec('crm__greet', { name: 'Bob' })).record.error?.code).toBe('forbidden');
  });

  it('keeps its tools under a class without tools', async () => {
    @ToolProvider({ namespace: 'open' })
    class OpenTools {
      @LlmTool(fine) greet(@ToolParam('name', { description: 'x', type: 'string' }) name: string): string {
        return `hello ${name}`;
      }
    }
    const bench = await Bench.start({ providers: [{ provide: OpenTools, useClass: SilentCrm }] });
    expect((await bench.run().exec('open__greet', { name: 'Ada' })).content).toBe('… Ada');
  });

  it.each<[string, Provider]>([
    ['a class without tools', { provide: CrmTools, useClass: SilentCrm }],
    ['a value', { provide: CrmTools, useValue: new SilentCrm() }],
    ['a factory', { provide: 'CRM', useFactory: () => new CrmTools() }],
    ['a request-scoped factory', { provide: CrmTools, scope: Scope.REQUEST, useFactory: () => new CrmTools() }],
  ])('is refused where Nest would leave out its guards: as %s', async (_, provider) => {
    expect(await findingsOf({ providers: [provider, NoBob] })).toEqual([
      {
        at: 'CrmTools.greet',
        problem:
          'Nest does not apply NoBob to it: it makes the guards, pipes, interceptors and filters of classes that are listed as they are.',
        remedy: 'List CrmTools itself in `providers`, or give an instance in its decorator, such as @UseGuards(new NoBob()).',
      },
    ]);
  });

  it.each([null, undefined])('has none where there is %s in its place', async (value) => {
    const module = await start({ providers: [CrmTools], replaced: new Map([[CrmTools, value]]) });
    expect(module.get(ToolCatalog).list()).toEqual([]);
  });
});

describe('a request-scoped factory under a token that is no class', () => {
  it('is noted, since nothing shows whether it makes tools', async () => {
    expect(await notesOf({ provide: 'CRM', scope: Scope.REQUEST, useFactory: () => new CrmTools() })).toEqual([
      'Only a request shows what the factory "CRM" makes. If that has tools, provide it as its class, so that they are found: { provide: CrmTools, scope, useFactory }.',
    ]);
  });

  it.each<[string, Provider]>([
    ['it is a singleton', { provide: 'CRM', useFactory: () => ({}) }],
    ['its token is a class', { provide: SilentCrm, scope: Scope.REQUEST, useFactory: () => new SilentCrm() }],
    ['it names its class', { provide: 'CRM', scope: Scope.REQUEST, useClass: SilentCrm }],
  ])('is not noted where %s', async (_, provider) => {
    expect(await notesOf(provider)).toEqual([]);
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
    const told = [expect.stringMatching(/^CrmTools: Its module was loaded after/), expect.stringMatching(/^ToolLoopModule.forFeature: /)];
    expect(opened()).toEqual(told);
    expect(opened()).toEqual(told);
  });
});
