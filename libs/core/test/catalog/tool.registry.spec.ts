import { describe, expect, it } from '@jest/globals';
import {
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import {
  LlmTool,
  type RawTool,
  tool,
  type Tool,
  ToolCatalog,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { ToolRegistry } from '@toolloop/core/catalog';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { ToolSources } from '@toolloop/core/sources';
import { compile, findingsOf, RecordingLogger, start } from '../tools/application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;
const raw = (id: string): RawTool => tool({ ...fine, id, execute: () => `I am ${id}.` });

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool(fine) search(): string {
    return 'found';
  }
  @LlmTool(fine) cancel(): void {}
}

const idsIn = (catalog: ToolCatalog): string[] => catalog.list().map(({ id }) => id);

@Injectable()
class InConstructor {
  constructor(registry: ToolRegistry) {
    registry.register(raw('made__early'));
  }
}

@Injectable()
class OnInit implements OnModuleInit {
  constructor(private readonly registry: ToolRegistry) {}
  async onModuleInit(): Promise<void> {
    await Promise.resolve();
    this.registry.register(raw('made__on_init'), raw('made__beside'));
  }
}

const fromFactory: Provider = {
  provide: 'factory',
  inject: [ToolRegistry],
  useFactory: async (registry: ToolRegistry) => {
    await Promise.resolve();
    registry.register(raw('made__in_factory'));
  },
};

/** Tells whether it came too late. */
@Injectable()
class OnBootstrap implements OnApplicationBootstrap {
  problem: unknown;
  constructor(private readonly registry: ToolRegistry) {}
  onApplicationBootstrap(): void {
    try {
      this.registry.register(raw('made__late'));
    } catch (error) {
      this.problem = error;
    }
  }
}

describe('tools that providers register', () => {
  it('are in the catalog when constructors, factories and onModuleInit add them, in any module', async () => {
    @Module({ providers: [OnInit, fromFactory] })
    class Deep {}
    @Module({ imports: [Deep] })
    class Between {}
    const app = await start({ imports: [Between], providers: [CrmTools, InConstructor] });
    const ids = ['made__early', 'made__in_factory', 'made__on_init', 'made__beside'];
    expect(idsIn(app.get(ToolCatalog)).toSorted()).toEqual(
      ['crm__search', 'crm__cancel', ...ids].toSorted(),
    );
  });

  it('come too late in onApplicationBootstrap: that of the loop comes first, in modules near and far', async () => {
    @Module({ providers: [OnBootstrap] })
    class Deep {}
    @Module({ imports: [Deep] })
    class Between {}
    const app = await start({
      imports: [Between],
      providers: [{ provide: 'near', useClass: OnBootstrap }],
    });
    for (const late of [app.get<OnBootstrap>('near'), app.get(OnBootstrap, { strict: false })])
      expect(late.problem).toEqual(
        new Error(
          'Too late to register tool made__late: the catalog was filled when the application started. Register tools in a constructor or in onModuleInit(), which all run before, or give them to ToolLoopModule.forRoot({ tools }).',
        ),
      );
    expect(idsIn(app.get(ToolCatalog))).toEqual([]);
  });

  it('come too late from a module that is loaded lazily', async () => {
    @Module({ providers: [InConstructor] })
    class Lazy {}
    const app = await start({ providers: [CrmTools] });
    await expect(app.get(LazyModuleLoader).load(() => Lazy)).rejects.toThrow(
      'Too late to register tool made__early',
    );
    expect(() => app.get(ToolRegistry).register()).toThrow('Too late');
  });

  it('come too late from a source of tools, which hands them over itself', async () => {
    @Injectable()
    class Source extends ToolSource {
      readonly origin = { source: 'made', trusted: true };
      @Inject(ToolRegistry) private readonly registry!: ToolRegistry;
      override tools(): Promise<readonly Tool[]> {
        this.registry.register(raw('made__by_source'));
        return Promise.resolve([]);
      }
    }
    const logger = new RecordingLogger();
    const app = await start({ providers: [Source], logger });
    expect(app.get(ToolSources).list()).toMatchObject([
      { source: 'made', state: 'unreachable', tools: [] },
    ]);
    expect(
      String(
        logger.warnings().find(({ message }) => String(message).includes('"made"'))?.details[0],
      ),
    ).toContain('Too late to register tool made__by_source');
    await app.close();
  });

  it('are checked as those of forRoot are: declarations, ids, collisions', async () => {
    @Injectable()
    class Wrong {
      constructor(registry: ToolRegistry) {
        registry.register(
          raw('not an id'),
          raw('crm__search'),
          tool({ ...fine, id: 'made__mute', description: ' ', execute: () => 1 }),
        );
      }
    }
    const findings = await findingsOf({ providers: [CrmTools, Wrong] });
    expect(findings.map(({ at, problem }) => `${at}: ${problem}`)).toEqual([
      'tool not an id: "not an id" is not a tool id that every model provider accepts.',
      'tool made__mute: The tool has no description.',
      'tool crm__search: Its id "crm__search" is also the id of CrmTools.search.',
    ]);
  });

  it('are allowed or not as any other, and run as any other', async () => {
    const model = new ScriptedModel([
      calls(call('made__early'), call('made__beside')),
      text('Done.'),
    ]);
    const policy = { allow: ['made__early'] };
    const app = await start({ providers: [InConstructor, OnInit], options: { model, policy } });
    const { toolCalls } = await app
      .get(ToolLoopService)
      .run({ prompt: 'Go.', actor: { id: 'a' }, tenant: 'acme' });
    expect(toolCalls.map(({ result, error }) => result ?? error?.code)).toEqual([
      'I am made__early.',
      'policy_denied',
    ]);
  });
});

describe('names', () => {
  it('have namespaces, each once and in the order of declaration', async () => {
    const options = { tools: [raw('web__search'), raw('lonely'), raw('web__fetch')] };
    const app = await start({ providers: [CrmTools], options });
    expect(app.get(ToolRegistry).namespaces()).toEqual(['crm', 'web']);
  });

  it('may be short where one tool only has them, and a whole id comes first', async () => {
    const options = {
      tools: [raw('web__search'), raw('cancel'), raw('old__web__fetch'), raw('web__fetch')],
    };
    const { registry } = (await start({ providers: [CrmTools], options })).get(ToolCatalog);
    expect(registry.resolve('fetch').spec.id).toBe('web__fetch');
    for (const whole of ['cancel', 'web__fetch'])
      expect(registry.resolve(whole).spec.id).toBe(whole);
    expect(() => registry.resolve('search')).toThrow(
      '"search" is short for crm__search and web__search. Use the whole id.',
    );
    expect(() => registry.resolve('web__fetsh')).toThrow(
      'No tool is named "web__fetsh". Did you mean "web__fetch"',
    );
  });

  it('name one tool when they are whole, though one is short for another', async () => {
    const catalog = (
      await start({ providers: [CrmTools], options: { tools: [raw('cancel')] } })
    ).get(ToolCatalog);
    const ids = (selection: object): string[] =>
      catalog.build(selection).map(({ spec }) => spec.id);
    expect(ids({ tools: ['cancel'] })).toEqual(['cancel']);
    expect(ids({ exclude: ['cancel'] })).toEqual(['crm__search', 'crm__cancel']);
  });

  it('are known when the application has started', async () => {
    const registry = (await compile({ providers: [CrmTools] })).get(ToolRegistry);
    for (const ask of [
      () => registry.namespaces(),
      () => registry.stats(),
      () => registry.resolve('a'),
    ])
      expect(ask).toThrow('call app.init() or app.listen() first');
  });
});

describe('stats', () => {
  it('count lookups and suggestions', async () => {
    const registry = (await start({ providers: [CrmTools] })).get(ToolRegistry);
    expect(registry.stats()).toMatchObject({
      tools: 2,
      namespaces: 1,
      lookups: 0,
      hits: 0,
      misses: 0,
      suggestions: 0,
    });
    for (const name of ['crm__search', 'search', 'crm__serch', 'weather', '__proto__']) {
      try {
        registry.resolve(name);
      } catch {
        // counted all the same
      }
    }
    expect(registry.stats()).toMatchObject({
      tools: 2,
      lookups: 5,
      hits: 2,
      misses: 3,
      suggestions: 1,
    });
  });

  it('count the lookups of calls, and keep nothing of them', async () => {
    const model = new ScriptedModel([
      calls(call('crm__search'), call('crm__secret', { tenant: 'acme' })),
      text('Done.'),
    ]);
    const app = await start({ providers: [CrmTools], options: { model } });
    await app.get(ToolLoopService).run({ prompt: 'Go.', actor: { id: 'a' }, tenant: 'acme' });
    const stats = app.get(ToolRegistry).stats();
    expect(stats).toMatchObject({ lookups: 2, hits: 1, misses: 1 });
    expect(JSON.stringify(stats)).not.toMatch(/secret|acme/);
  });

  it('tell how long the tools took to make, the slowest first and five at most', async () => {
    const tools = Array.from({ length: 9 }, (_, index) => raw(`made__${index}`));
    const { build } = (await start({ providers: [CrmTools], options: { tools } }))
      .get(ToolRegistry)
      .stats();
    const times = build.slowest.map(({ ms }) => ms);
    expect(times).toHaveLength(5);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
    expect(build.totalMs).toBeGreaterThan(times[0] ?? Infinity);
    expect(build.medianMs).toBeGreaterThan(0);
    expect(build.medianMs).toBeLessThanOrEqual(times[4] ?? 0);
  });

  it('have no median where there are no tools', async () => {
    const app = await start({ imports: [ToolLoopModule.forFeature({})] });
    expect(app.get(ToolRegistry).stats().build).toEqual({
      totalMs: expect.any(Number),
      slowest: [],
    });
  });

  it('hold no name that a caller made up, however many there were', async () => {
    const registry = (await start({ providers: [CrmTools] })).get(ToolRegistry);
    const before = JSON.stringify(registry.stats()).length;
    for (let index = 0; index < 1_000; index += 1)
      expect(() => registry.resolve(`secret-of-acme-${index}`)).toThrow('No tool');
    const after = JSON.stringify(registry.stats());
    expect(after).not.toContain('secret');
    expect(after.length).toBeLessThan(before + 10);
  });
});
