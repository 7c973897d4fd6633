import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  LanguageModel,
  type LoopEvent,
  LoopEventSink,
  type LoopRequest,
  type RunHandle,
  type ToolCallContext,
  type ToolLoopService,
} from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  expectRunEndsOnce,
  hangs,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { NEVER, Observable, Subscription } from 'rxjs';
import { atOnce } from '../fixtures/time.js';
import { expectSound, resultOf } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

/** Runs until `isThere` says so, and then interrupts. Resolves when the run has ended, at once. */
async function interrupt(
  handle: RunHandle,
  isThere: Promise<unknown>,
  by: (handle: RunHandle) => void,
): Promise<void> {
  const reading = collect(handle.events$);
  await isThere;
  by(handle);
  const events = await atOnce(reading);
  expectSound({ events, result: await resultOf(handle) });
}

/** Opened by whoever got to a place, and waited for by whoever wants to act then. */
class Gate {
  open!: () => void;
  readonly reached = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

/** A model that hears nothing: neither the signal nor that nobody reads on. */
class DeafModel extends LanguageModel {
  readonly provider = 'deaf';
  readonly modelId = 'deaf';
  readonly asked = new Gate();
  isClosed = false;
  signal: AbortSignal | undefined;

  stream(_: unknown, signal: AbortSignal): AsyncIterable<ModelEvent> {
    this.signal = signal;
    const close = () => {
      this.isClosed = true;
      return new Promise<never>(() => undefined);
    };
    const next = () => {
      this.asked.open();
      return new Promise<never>(() => undefined);
    };
    return { [Symbol.asyncIterator]: () => ({ next, return: close }) };
  }
}

const ways: [string, (handle: RunHandle, controller: AbortController) => void, string][] = [
  ['cancel()', (handle) => handle.cancel(), 'aborted'],
  ['the signal of the request', (_, controller) => controller.abort(), 'aborted'],
  [
    'a signal with a reason of its own',
    (_, controller) => controller.abort('gone home'),
    'aborted',
  ],
];

describe('invariant 11: aborting, at once,', () => {
  it.each(ways)("closes the provider's stream: %s", async (_, by, reason) => {
    const controller = new AbortController();
    const streaming = new Gate();
    const model = new ScriptedModel([
      async () => {
        streaming.open();
        return Promise.resolve(hangs('Let me'));
      },
    ]);
    const handle = (await openShop(model)).open(ask({ signal: controller.signal }));
    await interrupt(handle, streaming.reached, (run) => by(run, controller));
    expect(model.openStreams).toBe(0);
    expect(model.requests[0]?.signal.aborted).toBe(true);
    expect(await resultOf(handle)).toMatchObject({ finishReason: reason });
  });

  it.each(ways)('leaves, by %s, a model that ignores its signal, and tells it', async (_, by) => {
    const controller = new AbortController();
    const model = new DeafModel();
    const handle = (await openShop(model)).open(ask({ signal: controller.signal }));
    await interrupt(handle, model.asked.reached, (run) => by(run, controller));
    expect(model.isClosed).toBe(true);
    expect(model.signal?.aborted).toBe(true);
  });

  it.each(ways)(
    'aborts, by %s, the signals of all running tools, and leaves those that do not listen',
    async (_, by) => {
      const controller = new AbortController();
      const started = new Gate();
      const signals: AbortSignal[] = [];
      const act = (key: string, { signal }: ToolCallContext) => {
        signals.push(signal);
        if (signals.length === 3) started.open();
        return new Promise(() => key);
      };
      const model = new ScriptedModel([
        calls(...['a', 'b', 'c'].map((key) => call('probe__read', { key }))),
      ]);
      const handle = (await openShop(model)).open(
        ask({ signal: controller.signal, context: { act } }),
      );
      await interrupt(handle, started.reached, (run) => by(run, controller));
      expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
      const { toolCalls } = await resultOf(handle);
      expect(toolCalls.map(({ error }) => error?.code)).toEqual(['aborted', 'aborted', 'aborted']);
    },
  );

  it('ends a tool that streams at its source', async () => {
    let isTornDown = false;
    const started = new Gate();
    const act = () =>
      new Observable(() => {
        started.open();
        return () => {
          isTornDown = true;
        };
      });
    const handle = (
      await openShop(new ScriptedModel([calls(call('probe__read', { key: 'a' }))]))
    ).open(ask({ context: { act } }));
    await interrupt(handle, started.reached, (run) => run.cancel());
    expect(isTornDown).toBe(true);
  });

  it('leaves the outcome of an interrupted write open, and makes no call behind it', async () => {
    const started = new Gate();
    const made: string[] = [];
    const act = (key: string) => {
      made.push(key);
      started.open();
      return NEVER;
    };
    const model = new ScriptedModel([
      calls(call('probe__write', { key: 'a' }), call('probe__write', { key: 'b' })),
    ]);
    const handle = (await openShop(model)).open(ask({ context: { act } }));
    await interrupt(handle, started.reached, (run) => run.cancel());
    const { toolCalls } = await resultOf(handle);
    expect(toolCalls.map(({ error }) => error?.code)).toEqual(['unknown_outcome', 'aborted']);
    expect(made).toEqual(['a']);
  });

  it('takes its reason into the results of the calls', async () => {
    const started = new Gate();
    const act = () => {
      started.open();
      return NEVER;
    };
    const handle = (
      await openShop(new ScriptedModel([calls(call('probe__read', { key: 'a' }))]))
    ).open(ask({ context: { act } }));
    await interrupt(handle, started.reached, (run) => run.cancel('The user pressed stop.'));
    expect((await resultOf(handle)).toolCalls[0]?.error?.safeMessage).toBe(
      'The user pressed stop.',
    );
  });

  it.each([['the instructions', { instructions: () => new Promise<string>(() => undefined) }]])(
    'ends a run that waits for %s',
    async (_, request) => {
      const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(
        ask(request as Partial<LoopRequest>),
      );
      await interrupt(handle, new Promise((resolve) => setTimeout(resolve, 10)), (run) =>
        run.cancel(),
      );
      expect((await resultOf(handle)).finishReason).toBe('aborted');
    },
  );
});

afterEach(() => {
  jest.useRealTimers();
});

const script = () => [
  calls(call('probe__read', { key: 'a' }), call('probe__write', { key: 'b' })),
  text('Done.'),
];

describe('invariant 11: after a run, however it ended,', () => {
  it.each<[string, () => ScriptedTurn[], Partial<LoopRequest>]>([
    ['by itself', script, {}],
    ['by its time', () => [hangs()], { limits: { runMs: 10 } }],
    ['by the silence of the model', () => [hangs()], { limits: { modelIdleMs: 10 } }],
    ['by an error', () => [], {}],
    [
      'by the time of a tool',
      script,
      { limits: { toolCallMs: 10 }, context: { act: () => new Promise(() => undefined) } },
    ],
  ])(
    'when it has %s, no timer runs and no listener stays on the signal',
    async (_, turns, request) => {
      const { signal } = new AbortController();
      const loop = await openShop(new ScriptedModel(turns()));
      jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
      const ending = resultOf(loop.open(ask({ ...request, signal })));
      await jest.advanceTimersByTimeAsync(20);
      await ending;
      // the application's, which writes what its runs have used
      await jest.advanceTimersByTimeAsync(1_000);
      expect(jest.getTimerCount()).toBe(0);
      expect(getEventListeners(signal, 'abort')).toEqual([]);
    },
  );

  it('when it was aborted, no timer runs and no listener stays on the signal', async () => {
    const controller = new AbortController();
    const model = new DeafModel();
    const loop = await openShop(model);
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    const handle = loop.open(ask({ signal: controller.signal }));
    const result = resultOf(handle);
    await model.asked.reached;
    controller.abort();
    await result;
    // the application's, which writes what its runs have used
    await jest.advanceTimersByTimeAsync(1_000);
    expect(jest.getTimerCount()).toBe(0);
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('twenty tools at once cause no warning about listeners', async () => {
    const warnings: Error[] = [];
    const warn = (warning: Error) => void warnings.push(warning);
    process.on('warning', warn);
    const model = new ScriptedModel([
      calls(...Array.from({ length: 20 }, (_, index) => call('probe__read', { key: `${index}` }))),
      text('Done.'),
    ]);
    await (
      await openShop(model)
    ).run(ask({ limits: { parallelReads: 20 }, context: { act: listening } }));
    process.off('warning', warn);
    expect(warnings).toEqual([]);
  });
});

/** A tool that waits, and listens. */
function listening(_: string, { signal }: ToolCallContext): Promise<unknown> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', resolve);
    setTimeout(resolve, 5);
  });
}

/** Something of everything: text, a read, a write, a stream, a final answer. */
function longScript(): ScriptedTurn[] {
  return [
    calls(
      call('probe__customer', { key: 'c' }),
      call('probe__read', { key: 'a' }),
      call('probe__write', { key: 'b' }),
    ),
    calls(call('probe__read', { key: 'stream' })),
    text('Done and dusted.'),
  ];
}

async function* stream(): AsyncGenerator<string> {
  yield 'one';
  await Promise.resolve();
  yield 'two';
}

const longRequest = (): LoopRequest =>
  ask({
    context: { act: (key: string) => (key === 'stream' ? stream() : key === 'c' ? null : key) },
  });

async function cancelAt(loop: ToolLoopService, sequence: number): Promise<void> {
  const handle = loop.open(longRequest());
  const events = [];
  for await (const event of handle) {
    events.push(event);
    if (event.sequence === sequence) handle.cancel();
  }
  const result = await resultOf(handle);
  expectSound({ events, result });
  expect(result.finishReason).toBe('aborted');
}

describe('invariant 5: cancel() at every stage', () => {
  it('ends the run with everything every run has', async () => {
    const whole = await collect(
      (await openShop(new ScriptedModel(longScript()))).stream(longRequest()),
    );
    for (let sequence = 1; sequence < whole.length; sequence += 1)
      await cancelAt(await openShop(new ScriptedModel(longScript())), sequence);
    expect(whole.length).toBeGreaterThan(30);
  });

  it('begins no further tool', async () => {
    const handle = (await openShop(new ScriptedModel(longScript()))).open(longRequest());
    handle.events$.subscribe(({ type }) => {
      if (type === 'step-start') handle.cancel();
    });
    expect((await resultOf(handle)).toolCalls).toEqual([]);
  });

  it('asks no model when it comes before the start', async () => {
    const model = new ScriptedModel([]);
    const handle = (await openShop(model)).open(ask());
    handle.cancel();
    const events = await collect(handle.events$);
    expect(events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'aborted', steps: 0 });
    expect(model.requests).toEqual([]);
  });

  it('has no effect after the end, or twice', async () => {
    const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(ask());
    const events = await collect(handle.events$);
    handle.cancel();
    handle.cancel();
    expect(events.at(-1)).toMatchObject({ finishReason: 'stop' });
    expect((await handle.result).finishReason).toBe('stop');
  });

  it('asks no model with a signal that is aborted already', async () => {
    const model = new ScriptedModel([]);
    const handle = (await openShop(model)).open(ask({ signal: AbortSignal.abort() }));
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'aborted' });
    expect(model.requests).toEqual([]);
  });
});

describe('invariant 5: a client that goes away', () => {
  it('ends the run and closes its stream while the model streams', async () => {
    const model = new ScriptedModel([hangs('I think')]);
    const handle = (await openShop(model)).open(ask());
    const subscription = new Subscription();
    subscription.add(
      handle.events$.subscribe(({ type }) => {
        if (type === 'text-delta') queueMicrotask(() => subscription.unsubscribe());
      }),
    );
    const result = await resultOf(handle);
    expect(result).toMatchObject({ finishReason: 'aborted', text: expect.stringMatching(/^I/) });
    expect(model.openStreams).toBe(0);
  });

  it.each([
    {
      when: 'before the method of a tool is called',
      later: (leave: () => void): void => leave(),
      first: 'aborted',
    },
    {
      when: 'while the method of a tool is at work',
      later: (leave: () => void): void => void setImmediate(leave),
      first: 'unknown_outcome',
    },
  ])('leaves a valid transcript behind $when', async ({ later, first }) => {
    const model = new ScriptedModel([
      calls(call('probe__write', { key: 'a' }), call('probe__read', { key: 'b' })),
    ]);
    const handle = (await openShop(model)).open(ask({ context: { act: () => NEVER } }));
    const subscription = new Subscription();
    subscription.add(
      handle.events$.subscribe(({ type }) => {
        if (type === 'tool-start') later(() => subscription.unsubscribe());
      }),
    );
    const result = await resultOf(handle);
    expect(result.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool']);
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([first, 'aborted']);
  });

  it('ends the run, too, at the very first event, within the subscription itself', async () => {
    const model = new ScriptedModel([]);
    const handle = (await openShop(model)).open(ask());
    const seen = await new Promise<string[]>((resolve) => {
      const types: string[] = [];
      const subscription: Subscription = handle.events$.subscribe((event) => {
        types.push(event.type);
        queueMicrotask(() => {
          subscription.unsubscribe();
          resolve(types);
        });
      });
    });
    expect(seen).toEqual(['run-start']);
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'aborted' });
    expect(model.requests).toEqual([]);
  });

  it('still has its run in the sinks, to the end', async () => {
    const written: LoopEvent[] = [];
    class Sink extends LoopEventSink {
      override write(event: LoopEvent): void {
        written.push(event);
      }
    }
    const handle = (await openShop(new ScriptedModel([hangs()]), { providers: [Sink] })).open(
      ask(),
    );
    for await (const { type } of handle) if (type === 'step-start') break;
    await resultOf(handle);
    expectRunEndsOnce(written);
    expect(written.at(-1)).toMatchObject({ finishReason: 'aborted' });
  });
});
