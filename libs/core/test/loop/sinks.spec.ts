import { describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  type LoopEvent,
  LoopEventSink,
  RunError,
  subRunTool,
  ToolLoopService,
  toolLoopToken,
} from '@toolloop/core';
import type { Message, RunIdentity } from '@toolloop/protocol';
import type { LoopHooks, LoopIteration } from '@toolloop/core/contracts';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  eventsOf,
  expectRunEndsOnce,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { play, resultOf, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openModule, openShop, type ShopOptions } from '../fixtures/shop.module.js';

type Write = (event: LoopEvent) => void | Promise<void>;

/** A sink that keeps what it is given, and does what the test says. */
class NotedSink extends LoopEventSink {
  readonly events: LoopEvent[] = [];

  constructor(
    private readonly writing: Write,
    override readonly critical = false,
  ) {
    super();
  }

  override write(event: LoopEvent): void | Promise<void> {
    this.events.push(event);
    return this.writing(event);
  }
}

const later = () => new Promise<void>((resolve) => setTimeout(resolve, 1));
const nothing: Write = () => undefined;

async function playWith(...sinks: readonly LoopEventSink[]): Promise<PlayedRun> {
  const model = new ScriptedModel([
    calls(call('probe__customer', { key: 'a' }), call('probe__write', { key: 'b' })),
    text('Done.'),
  ]);
  const loop = await openShop(model, {
    providers: sinks.map((sink, index) => ({ provide: `sink ${index}`, useValue: sink })),
  });
  return play(loop, ask({ context: { act: (key: string) => (key === 'a' ? null : key) } }));
}

/** From the first event of the run above to its last. */
const EVERY_EVENT = Array.from({ length: 23 }, (_, index) => index + 1);

describe('a sink', () => {
  it('is tried below at every event of the run', async () => {
    const { events } = await playWith();
    expect(events.map(({ sequence }) => sequence)).toEqual(EVERY_EVENT);
  });

  it('is given every event of a run, in order, whether it is slow or not', async () => {
    const sinks = [new NotedSink(nothing), new NotedSink(later), new NotedSink(later, true)];
    const { events } = await playWith(...sinks);
    for (const sink of sinks) expect(sink.events).toEqual(events);
  });

  it('is found among the providers of any module, by its class', async () => {
    const written: string[] = [];
    @Injectable()
    class Journal extends LoopEventSink {
      override write({ type }: LoopEvent): void {
        written.push(type);
      }
    }
    await play(await openShop(new ScriptedModel([text('Done.')]), { providers: [Journal] }), ask());
    expect(written.at(-1)).toBe('run-end');
  });

  it('receives every event before any reader when it is critical', async () => {
    const sink = new NotedSink(later, true);
    const loop = await openShop(
      new ScriptedModel([calls(call('probe__read', { key: 'a' })), text('Done.')]),
      {
        providers: [{ provide: 'sink', useValue: sink }],
      },
    );
    const early: string[] = [];
    for await (const event of loop.open(ask()))
      if (sink.events.at(-1) !== event) early.push(event.type);
    expect(early).toEqual([]);
  });
});

/** A shop with these sinks, and its loop `support`. */
async function inLoops(
  sinks: readonly LoopEventSink[],
  script: readonly ScriptedTurn[],
  options: Partial<ShopOptions> = {},
) {
  const providers = sinks.map((sink, index) => ({ provide: `sink ${index}`, useValue: sink }));
  const module = await openModule(
    new ScriptedModel(script),
    { ...options, providers },
    { support: {} },
  );
  return {
    loop: module.get<ToolLoopService>(ToolLoopService),
    support: module.get<ToolLoopService>(toolLoopToken('support')),
  };
}

describe('the identity that a sink is given', () => {
  class Identified extends LoopEventSink {
    readonly written: (readonly [LoopEvent['type'], RunIdentity])[] = [];

    constructor(override readonly critical = false) {
      super();
    }

    override write({ type }: LoopEvent, run: RunIdentity): void {
      this.written.push([type, run]);
    }
  }

  it.each([false, true])(
    'names run, tenant, actor and loop at every event, critical or not (%s)',
    async (critical) => {
      const sink = new Identified(critical);
      const { support } = await inLoops(
        [sink],
        [calls(call('probe__read', { key: 'a' })), text('Done.')],
      );
      const { runId } = await support.run(ask());
      expect(sink.written.length).toBeGreaterThan(5);
      for (const [, run] of sink.written)
        expect(run).toEqual({ runId, tenant: 'acme', actorId: 'alice', loop: 'support' });
    },
  );

  it('has no actor without an id, and no loop without a name', async () => {
    const sink = new Identified();
    const { loop } = await inLoops([sink], [text('Done.')]);
    const { runId } = await loop.run(ask({ actor: {} }));
    expect(sink.written[0]?.[1]).toEqual({ runId, tenant: 'acme' });
  });

  it('is that of the root run for what a sub-run does', async () => {
    const sink = new Identified();
    const inner = new ScriptedModel([text('Found.')]);
    const research = subRunTool({
      id: 'research',
      description: 'Finds out.',
      tools: ['probe__*'],
      model: inner,
    });
    const { loop } = await inLoops(
      [sink],
      [calls(call('research', { prompt: 'Find.' })), text('Done.')],
      { tools: [research] },
    );
    const { runId } = await loop.run(ask());
    const nested = sink.written.filter(([type]) => type === 'sub-run');
    expect(nested.length).toBeGreaterThan(2);
    for (const [, run] of nested) expect(run).toEqual({ runId, tenant: 'acme', actorId: 'alice' });
  });

  it('keeps apart the runs that two tenants have at once, also calls without a model', async () => {
    const sink = new Identified();
    const { loop } = await inLoops([sink], []);
    const tenants = ['acme', 'globex'] as const;
    const made = Array.from({ length: 30 }, (_, index) => {
      const tenant = tenants[index % 2] ?? 'acme';
      return loop.call({
        tool: 'probe__read',
        args: { key: 'a' },
        actor: { id: `${tenant}-user` },
        tenant,
      });
    });
    const ofRuns = new Map(
      (await Promise.all(made)).map(({ runId }, index) => [runId, tenants[index % 2]]),
    );
    for (const [, run] of sink.written) {
      expect(run.tenant).toBe(ofRuns.get(run.runId));
      expect(run.actorId).toBe(`${run.tenant}-user`);
    }
  });

  it('cannot be changed by one sink for the next', async () => {
    const hostile = new (class extends LoopEventSink {
      override write(_event: LoopEvent, run: RunIdentity): void {
        Object.assign(run, { tenant: 'globex' });
      }
    })();
    const sink = new Identified();
    const { loop } = await inLoops([hostile, sink], [text('Done.')]);
    await loop.run(ask());
    for (const [, { tenant }] of sink.written) expect(tenant).toBe('acme');
  });
});

describe('invariant 5: a sink that is not critical', () => {
  it.each<[string, Write]>([
    [
      'throws',
      () => {
        throw new Error('full');
      },
    ],
    ['rejects', () => Promise.reject(new Error('full'))],
    ['rejects late', () => later().then(() => Promise.reject(new Error('full')))],
    ['hangs', () => new Promise(() => undefined)],
    ['returns no promise', () => 'ok' as unknown as undefined],
  ])('leaves the run as it is when it %s', async (_, write) => {
    const { result } = await playWith(new NotedSink(write));
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
  });

  it('is reported once, in the right place of the sequence, when it throws', async () => {
    const sink = new NotedSink(() => {
      throw new Error('full');
    });
    const { events } = await playWith(sink);
    expect(eventsOf(events, 'warning')).toMatchObject([{ code: 'sink_failed', sequence: 2 }]);
  });

  it.each(EVERY_EVENT)('leaves the run-end last when it throws at event %i', async (sequence) => {
    const sink = new NotedSink((event) => {
      if (event.sequence === sequence) throw new Error('full');
    });
    const { events } = await playWith(sink, new NotedSink(nothing, sequence % 2 === 0));
    expectRunEndsOnce(sink.events);
    expect(sink.events).toEqual(events);
  });

  it('has no warning after the run-end when it fails there', async () => {
    const sink = new NotedSink((event) => {
      if (event.type === 'run-end') throw new Error('full');
    });
    const { events } = await playWith(sink);
    expect(eventsOf(events, 'warning')).toEqual([]);
  });

  it('stays silent to a reader that iterates when it rejects after the end of the run', async () => {
    const sink = new NotedSink(() => later().then(() => Promise.reject(new Error('full'))));
    const loop = await openShop(new ScriptedModel([text('Done.')]), {
      providers: [{ provide: 'sink', useValue: sink }],
    });
    const handle = loop.open(ask());
    const iterator = handle[Symbol.asyncIterator]();
    const seen: string[] = [];
    for (let next = await iterator.next(); !next.done; next = await iterator.next()) {
      seen.push(next.value.type);
      await later();
    }
    expect(seen.at(-1)).toBe('run-end');
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });
});

describe('invariant 5: a critical sink that fails', () => {
  it.each(EVERY_EVENT)(
    'ends the run at event %i, with everything every run has',
    async (sequence) => {
      const sink = new NotedSink((event) => {
        if (event.sequence === sequence) throw new Error('disk full');
      }, true);
      const { events, result } = await playWith(sink);
      const isOver = events.at(-1)?.sequence === sequence;
      expect(result).toMatchObject(
        isOver ? { finishReason: 'stop' } : { finishReason: 'error', error: { code: 'internal' } },
      );
      expect(sink.events).toEqual(events);
      expect(JSON.stringify(events)).not.toContain('disk');
    },
  );

  it('ends the run at once when it fails at every event, and the model is not asked', async () => {
    const model = new ScriptedModel([]);
    const sink = new NotedSink(() => Promise.reject(new Error('disk full')), true);
    const loop = await openShop(model, { providers: [{ provide: 'sink', useValue: sink }] });
    const { events } = await play(loop, ask());
    expect(events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
    expect(model.requests).toEqual([]);
  });

  it('has its error in the rejection of `run()`, as the cause', async () => {
    const failure = new Error('disk full');
    const sink = new NotedSink(() => Promise.reject(failure), true);
    const loop = await openShop(new ScriptedModel([]), {
      providers: [{ provide: 'sink', useValue: sink }],
    });
    const error: unknown = await loop.run(ask()).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(RunError);
    expect((error as RunError).cause).toMatchObject({ cause: failure });
  });

  it('is left behind after 10 seconds without an answer, and the run ends', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    try {
      const sink = new NotedSink(
        (event) => (event.type === 'step-start' ? new Promise(() => undefined) : undefined),
        true,
      );
      const loop = await openShop(new ScriptedModel([text('Done.')]), {
        providers: [{ provide: 'sink', useValue: sink }],
      });
      const handle = loop.open(ask());
      const reading = collect(handle.events$);
      await jest.advanceTimersByTimeAsync(10_001);
      expectRunEndsOnce(await reading);
      expect(await resultOf(handle)).toMatchObject({
        finishReason: 'error',
        error: { code: 'internal' },
      });
      // the application's, which writes what its runs have used
      await jest.advanceTimersByTimeAsync(1_000);
      expect(jest.getTimerCount()).toBe(0);
    } finally {
      jest.useRealTimers();
    }
  });

  it('is asked no more once it has hung, so that the run-end does not wait for it a second time', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    try {
      const sink = new NotedSink(() => new Promise(() => undefined), true);
      const loop = await openShop(new ScriptedModel([]), {
        providers: [{ provide: 'sink', useValue: sink }],
      });
      const reading = collect(loop.open(ask()).events$);
      await jest.advanceTimersByTimeAsync(10_001);
      expectRunEndsOnce(await reading);
      expect(sink.events.map(({ type }) => type)).toEqual(['run-start']);
    } finally {
      jest.useRealTimers();
    }
  });
});

const boom = () => {
  throw new Error('hook');
};

describe('invariant 5: a hook of steps', () => {
  it.each([
    ['throws', boom],
    ['rejects', () => Promise.reject(new Error('hook'))],
    ['hangs', () => new Promise<void>(() => undefined)],
  ])('changes nothing when it %s', async (_, onIteration) => {
    const model = new ScriptedModel([calls(call('probe__read', { key: 'a' })), text('Done.')]);
    const { result, events } = await play(
      await openShop(model),
      ask({ hooks: { onIteration }, limits: { runMs: 2_000 } }),
    );
    expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }] });
    expect(JSON.stringify(events)).not.toContain('hook');
  });

  it('is told of every step, in order, and for whom the run acts', async () => {
    const told: unknown[] = [];
    const onIteration: LoopHooks['onIteration'] = ({ step, toolCalls, usage }, { actor, tenant }) =>
      void told.push([step, toolCalls.length, usage.inputTokens, actor, tenant]);
    const model = new ScriptedModel([
      calls(call('probe__read', { key: 'a' }), call('probe__raed', {})),
      text('Done.'),
    ]);
    await play(await openShop(model), ask({ hooks: { onIteration } }));
    expect(told).toEqual([
      [1, 2, 10, { id: 'alice' }, 'acme'],
      [2, 0, 20, { id: 'alice' }, 'acme'],
    ]);
  });

  it('is told when each step ended, and how many messages the transcript has by then', async () => {
    const told: Pick<LoopIteration, 'timestamp' | 'messageCount'>[] = [];
    const model = new ScriptedModel([
      calls(call('probe__read', { key: 'a' }), call('probe__raed', {})),
      text('Done.'),
    ]);
    const before: Message[] = [
      { role: 'user', content: 'Hello.' },
      { role: 'assistant', content: 'Hello.' },
    ];
    const messages: Message[] = [...before, { role: 'user', content: 'Go on.' }];
    const { result } = await play(await openShop(model), {
      messages,
      actor: { id: 'alice' },
      tenant: 'acme',
      hooks: { onIteration: (one) => void told.push(one) },
    });
    expect(told.map(({ messageCount }) => messageCount)).toEqual([
      before.length + 4,
      before.length + 5,
    ]);
    expect(result.messages).toHaveLength(before.length + 5);
    for (const { timestamp } of told) expect(new Date(timestamp).toISOString()).toBe(timestamp);
  });
});
