import { afterEach, describe, expect, it } from '@jest/globals';
import { Inject, Injectable, Module, Scope } from '@nestjs/common';
import {
  ContextIdFactory,
  REQUEST,
  type ContextId,
  type ContextIdStrategy,
  type HostComponentInfo,
} from '@nestjs/core';
import { LlmTool, type RunContext, ToolProvider } from '@toolloop/core';
import { Bench } from '../call/bench.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

/** Counts the instances of one spec. */
class Births {
  count = 0;
}

@Injectable({ scope: Scope.REQUEST })
@ToolProvider({ namespace: 'request' })
class RequestTools {
  private readonly number: number;

  constructor(
    @Inject(REQUEST) private readonly run: RunContext,
    @Inject(Births) births: Births,
  ) {
    births.count += 1;
    this.number = births.count;
  }

  @LlmTool(fine) instance(): number {
    return this.number;
  }

  @LlmTool(fine) request(): object {
    const { runId, tenant, context, actor } = this.run;
    return {
      runId,
      tenant,
      context,
      actor: actor as object,
      keys: Object.keys(this.run).toSorted(),
    };
  }

  @LlmTool(fine) sameState(): boolean {
    return this.run.state instanceof Map;
  }
}

@Injectable({ scope: Scope.TRANSIENT })
class Counter {
  count = 0;
}

@Injectable({ scope: Scope.TRANSIENT })
@ToolProvider({ namespace: 'transient' })
class TransientTools {
  constructor(@Inject(Counter) private readonly counter: Counter) {}

  @LlmTool(fine) next(): number {
    this.counter.count += 1;
    return this.counter.count;
  }
}

@Injectable({ scope: Scope.REQUEST, durable: true })
@ToolProvider({ namespace: 'durable' })
class DurableTools {
  private calls = 0;

  constructor(@Inject(REQUEST) private readonly request: object) {}

  @LlmTool(fine) next(): number {
    this.calls += 1;
    return this.calls;
  }

  @LlmTool(fine) seen(): object {
    return { ...this.request };
  }
}

@Module({ providers: [RequestTools, Births] })
class InnerModule {}

@Module({ imports: [InnerModule] })
class OuterModule {}

describe('a request-scoped provider', () => {
  it('is made once per run, for all its calls', async () => {
    const bench = await Bench.start({ providers: [RequestTools, Births] });
    const run = bench.run();
    const [one, other] = [await run.exec('request__instance'), await run.exec('request__instance')];
    expect([one.content, other.content]).toEqual(['1', '1']);
    expect(bench.module.get(Births).count).toBe(1);
  });

  it('is made once for two calls at the same time', async () => {
    const bench = await Bench.start({ providers: [RequestTools, Births] });
    const run = bench.run();
    const outcomes = await Promise.all([
      run.exec('request__instance'),
      run.exec('request__instance'),
    ]);
    expect(outcomes.map(({ content }) => content)).toEqual(['1', '1']);
    expect(bench.module.get(Births).count).toBe(1);
  });

  it('is another in another run', async () => {
    const bench = await Bench.start({ providers: [RequestTools, Births] });
    const [one, other] = [bench.run({ runId: 'run_1' }), bench.run({ runId: 'run_2' })];
    expect((await one.exec('request__instance')).content).toBe('1');
    expect((await other.exec('request__instance')).content).toBe('2');
  });

  it('is not made before it is called', async () => {
    const bench = await Bench.start({ providers: [RequestTools, Births] });
    expect(bench.catalog.list().map(({ id }) => id)).toContain('request__instance');
    expect(bench.module.get(Births).count).toBe(0);
  });

  it('receives the context of the run as REQUEST, and nothing of the call that came first', async () => {
    const bench = await Bench.start({ providers: [RequestTools, Births] });
    const run = bench.run({ runId: 'run_7', tenant: 'globex', context: { locale: 'de' } });
    const { content } = await run.exec('request__request');
    expect(JSON.parse(content)).toEqual({
      runId: 'run_7',
      tenant: 'globex',
      context: { locale: 'de' },
      actor: { id: 'ada' },
      keys: ['actor', 'context', 'runId', 'state', 'tenant'],
    });
  });

  it('is found in a nested module that exports nothing', async () => {
    const bench = await Bench.start({ imports: [OuterModule] });
    const { content } = await bench.run().exec('request__instance');
    expect(content).toBe('1');
  });
});

describe('a transient provider', () => {
  it('is one per run, with what it injects', async () => {
    const bench = await Bench.start({ providers: [TransientTools, Counter] });
    const [one, other] = [bench.run(), bench.run()];
    expect((await one.exec('transient__next')).content).toBe('1');
    expect((await one.exec('transient__next')).content).toBe('2');
    expect((await other.exec('transient__next')).content).toBe('1');
  });
});

describe('a durable provider', () => {
  /** One context per tenant, as Nest's documentation shows it. */
  class ByTenant implements ContextIdStrategy<RunContext> {
    private readonly tenants = new Map<string, ContextId>();

    attach(contextId: ContextId, { tenant }: RunContext) {
      const known = this.tenants.get(tenant) ?? { id: this.tenants.size };
      this.tenants.set(tenant, known);
      return {
        resolve: (info: HostComponentInfo) => (info.isTreeDurable ? known : contextId),
        payload: { tenantId: tenant },
      };
    }
  }

  afterEach(() => {
    Reflect.deleteProperty(ContextIdFactory, 'strategy');
  });

  it('is shared by the runs of a tenant and not by those of another', async () => {
    ContextIdFactory.apply(new ByTenant());
    const bench = await Bench.start({ providers: [DurableTools] });
    const contents: string[] = [];
    for (const tenant of ['acme', 'acme', 'globex'])
      contents.push((await bench.run({ tenant }).exec('durable__next')).content);
    expect(contents).toEqual(['1', '2', '1']);
  });

  it('receives the payload of the strategy as REQUEST, and nothing of the run that came first', async () => {
    ContextIdFactory.apply(new ByTenant());
    const bench = await Bench.start({ providers: [DurableTools] });
    const { content } = await bench.run({ tenant: 'acme' }).exec('durable__seen');
    expect(JSON.parse(content)).toEqual({ tenantId: 'acme' });
  });

  it('leaves the request-scoped providers beside it their run', async () => {
    ContextIdFactory.apply(new ByTenant());
    const bench = await Bench.start({ providers: [DurableTools, RequestTools, Births] });
    const run = bench.run({ runId: 'run_3', tenant: 'acme' });
    await run.exec('durable__next');
    expect(JSON.parse((await run.exec('request__request')).content)).toMatchObject({
      runId: 'run_3',
      tenant: 'acme',
    });
  });
});
