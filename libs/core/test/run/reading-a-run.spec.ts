import { describe, expect, it, jest } from '@jest/globals';
import { LanguageModel, type LoopEvent, ModelError, RunError } from '@toolloop/core';
import { type ModelEvent, timestampOfNow } from '@toolloop/protocol';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  expectRunEndsOnce,
  fails,
  text,
} from '@toolloop/testing';
import { firstValueFrom, map, share, take, toArray } from 'rxjs';
import { resultOf } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const settle = () => new Promise((resolve) => setTimeout(resolve, 10));

/** Speaks for as long as somebody listens, and counts how often it was asked to go on. */
class EndlessModel extends LanguageModel {
  readonly provider = 'endless';
  readonly modelId = 'endless';
  pulled = 0;
  isClosed = false;

  async *stream(): AsyncGenerator<ModelEvent> {
    try {
      for (;;) {
        this.pulled += 1;
        yield await Promise.resolve({ type: 'text-delta', text: 'more ' });
      }
    } finally {
      this.isClosed = true;
    }
  }
}

describe('a run that was opened', () => {
  it('does not start by itself', async () => {
    const model = new ScriptedModel([]);
    const handle = (await openShop(model)).open(ask());
    await settle();
    expect(handle.runId).toMatch(/^[0-9a-f-]{36}$/);
    expect(model.requests).toEqual([]);
  });

  it('does not start because `events$` was looked at', async () => {
    const model = new ScriptedModel([]);
    const { events$ } = (await openShop(model)).open(ask());
    events$.pipe(map(({ type }) => type));
    await settle();
    expect(model.requests).toEqual([]);
  });

  it('runs once, however often its result is asked for', async () => {
    const model = new ScriptedModel([text('Done.')]);
    const handle = (await openShop(model)).open(ask());
    const results = await Promise.all([handle.result, handle.result]);
    expect(results[0]).toBe(results[1]);
    expect(model.requests).toHaveLength(1);
  });

  it('refuses a reader of events that comes after the result was asked for, and says why', async () => {
    const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(ask());
    const result = handle.result;
    await expect(collect(handle.events$)).rejects.toThrow(
      'has started; read its events before asking for its result',
    );
    expect(() => handle[Symbol.asyncIterator]()).toThrow(
      'has started; read its events before asking for its result',
    );
    expect((await result).finishReason).toBe('stop');
  });

  it('gives its result also to a caller that reads the events first', async () => {
    const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(ask());
    await collect(handle.events$);
    expect(await handle.result).toMatchObject({ runId: handle.runId, text: 'Done.' });
  });
});

describe('`run()`', () => {
  it('resolves with the result of the run', async () => {
    const result = await (await openShop(new ScriptedModel([text('Done.')]))).run(ask());
    expect(result).toMatchObject({
      finishReason: 'stop',
      text: 'Done.',
      steps: 1,
      usage: { inputTokens: 10, outputTokens: 5 },
    });
  });

  it('rejects for an error, with the partial result and the cause', async () => {
    const failure = new ModelError('out of order');
    const loop = await openShop(
      new ScriptedModel([calls(call('probe__read', { key: 'a' })), fails(failure)]),
    );
    const error: unknown = await loop.run(ask()).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(RunError);
    expect(error).toMatchObject({ message: 'The model could not answer.', cause: failure });
    expect((error as RunError).result).toMatchObject({
      finishReason: 'error',
      toolCalls: [{ status: 'succeeded' }],
    });
    expect((error as RunError).result.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
    ]);
  });

  it('rejects for an abort, with the partial result', async () => {
    const loop = await openShop(new ScriptedModel([]));
    const error: unknown = await loop
      .run(ask({ signal: AbortSignal.abort() }))
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      name: 'RunError',
      message: 'The run ended with "aborted".',
      result: { finishReason: 'aborted' },
    });
  });

  it('resolves for a limit', async () => {
    const loop = await openShop(new ScriptedModel([calls(call('probe__read', { key: 'a' }))]));
    await expect(loop.run(ask({ limits: { steps: 1 } }))).resolves.toMatchObject({
      finishReason: 'max_steps',
    });
  });
});

describe('`events$`', () => {
  it('has one subscriber: a second gets an error, and no tool runs twice', async () => {
    let count = 0;
    const loop = await openShop(
      new ScriptedModel([calls(call('probe__write', { key: 'a' })), text('Done.')]),
    );
    const events$ = loop.stream(ask({ context: { act: () => (count += 1) } }));
    const first = collect(events$);
    await expect(collect(events$)).rejects.toThrow(
      'a run has one reader. Share them with RxJS share()',
    );
    expectRunEndsOnce(await first);
    await expect(collect(events$)).rejects.toThrow('a run has one reader');
    expect(count).toBe(1);
  });

  it('has no subscriber beside an iteration', async () => {
    const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(ask());
    const reading = collect(handle);
    await expect(collect(handle.events$)).rejects.toThrow('a run has one reader');
    expectRunEndsOnce(await reading);
  });

  it('can be shared', async () => {
    const events$ = (await openShop(new ScriptedModel([text('Done.')])))
      .stream(ask())
      .pipe(share());
    const [one, other] = await Promise.all([
      collect(events$),
      firstValueFrom(events$.pipe(toArray())),
    ]);
    expect(one.length).toBeGreaterThan(3);
    expect(other.at(-1)).toBe(one.at(-1));
  });

  it('never errors after `run-start`: a failure is a `run-end`', async () => {
    const events = await collect(
      (await openShop(new ScriptedModel([fails(new ModelError('no'))]))).stream(ask()),
    );
    expectRunEndsOnce(events);
    expect(events.at(-1)).toMatchObject({ finishReason: 'error', error: { code: 'model_error' } });
  });

  it('ends no process when its result fails without a reader', async () => {
    const rejections: unknown[] = [];
    const note = (reason: unknown) => void rejections.push(reason);
    process.on('unhandledRejection', note);
    await collect((await openShop(new ScriptedModel([fails(new ModelError('no'))]))).stream(ask()));
    await settle();
    process.off('unhandledRejection', note);
    expect(rejections).toEqual([]);
  });

  it('aborts the run when it is unsubscribed, by an operator too', async () => {
    const model = new EndlessModel();
    const handle = (await openShop(model)).open(ask());
    const seen = await collect(handle.events$.pipe(take(5)));
    expect(seen).toHaveLength(5);
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'aborted' });
    expect(model.isClosed).toBe(true);
  });

  it('aborts the run when an operator behind it throws', async () => {
    const model = new EndlessModel();
    const handle = (await openShop(model)).open(ask());
    const broken$ = handle.events$.pipe(
      map((event): LoopEvent => {
        if (event.type === 'text-delta') throw new Error('encoder');
        return event;
      }),
    );
    await expect(collect(broken$)).rejects.toThrow('encoder');
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'aborted' });
  });

  it("gives every run an id of its own, and every event the run's", async () => {
    const loop = await openShop(new ScriptedModel([text('A'), text('B')]));
    const handles = [loop.open(ask()), loop.open(ask())];
    const read = await Promise.all(handles.map((handle) => collect(handle)));
    expect(new Set(read.flat().map(({ runId }) => runId))).toEqual(
      new Set(handles.map(({ runId }) => runId)),
    );
    expect(handles[0]?.runId).not.toBe(handles[1]?.runId);
    for (const { timestamp } of read.flat())
      expect(new Date(timestamp).toISOString()).toBe(timestamp);
  });
});

describe('the time of an event', () => {
  it('is written to the millisecond, within a second and across seconds', () => {
    const start = Date.parse('2026-02-28T23:59:59.000Z');
    const clock = jest.spyOn(Date, 'now');
    for (const ms of [0, 7, 42, 999, 1000, 1001, 500, 61_000]) {
      clock.mockReturnValue(start + ms);
      expect(timestampOfNow()).toBe(new Date(start + ms).toISOString());
    }
    clock.mockRestore();
  });
});

describe('iterating a run', () => {
  it('is driven by the reader: one that stops, stops the reading of the model', async () => {
    const model = new EndlessModel();
    const iterator = (await openShop(model)).open(ask())[Symbol.asyncIterator]() as AsyncIterator<
      LoopEvent,
      undefined
    >;
    for (let count = 0; count < 12; count += 1) await iterator.next();
    await settle();
    const { pulled } = model;
    expect(pulled).toBeLessThanOrEqual(12);
    await settle();
    expect(model.pulled).toBe(pulled);
    await iterator.next();
    await settle();
    expect(model.pulled).toBe(pulled + 1);
    await iterator.return?.();
  });

  it('asks no model before the reader asks for more than the first event', async () => {
    const model = new ScriptedModel([]);
    const iterator = (await openShop(model)).open(ask())[Symbol.asyncIterator]() as AsyncIterator<
      LoopEvent,
      undefined
    >;
    expect((await iterator.next()).value).toMatchObject({ type: 'run-start' });
    await settle();
    expect(model.requests).toEqual([]);
    await iterator.return?.();
  });

  it("aborts the run when the reader leaves, and closes the model's stream", async () => {
    const model = new EndlessModel();
    const handle = (await openShop(model)).open(ask());
    for await (const { type } of handle) if (type === 'text-delta') break;
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'aborted' });
    expect(model.isClosed).toBe(true);
  });

  it('aborts the run when the reader throws', async () => {
    const handle = (await openShop(new EndlessModel())).open(ask());
    const reading = (async () => {
      for await (const { type } of handle) if (type === 'text-delta') throw new Error('reader');
    })();
    await expect(reading).rejects.toThrow('reader');
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'aborted' });
  });

  it('answers those that ask ahead, in order', async () => {
    const shop = await openShop(new ScriptedModel([text('Done.')]));
    const iterator = shop.open(ask())[Symbol.asyncIterator]() as AsyncIterator<
      LoopEvent,
      undefined
    >;
    const asked = Array.from({ length: 40 }, () => iterator.next());
    const sequences = (await Promise.all(asked)).flatMap(({ value }) =>
      value ? [value.sequence] : [],
    );
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    expect(await asked.at(-1)).toEqual({ done: true, value: undefined });
  });

  it('lets go of those that wait when it is left', async () => {
    const handle = (
      await openShop(new ScriptedModel([calls(call('probe__read', { key: 'a' }))]))
    ).open(ask({ context: { act: () => new Promise(() => undefined) } }));
    const iterator = handle[Symbol.asyncIterator]() as AsyncIterator<LoopEvent, undefined>;
    for (let next = await iterator.next(); next.value?.type !== 'tool-start';)
      next = await iterator.next();
    const waiting = iterator.next();
    await iterator.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });

  it('has nothing more to read once it is left, though events of calls made together waited to be read', async () => {
    const together = calls(call('probe__read', { key: 'a' }), call('probe__read', { key: 'b' }));
    const handle = (await openShop(new ScriptedModel([together]))).open(ask());
    const iterator = handle[Symbol.asyncIterator]() as AsyncIterator<LoopEvent, undefined>;
    for (let next = await iterator.next(); next.value?.type !== 'tool-start';)
      next = await iterator.next();
    await settle();
    await iterator.return?.();
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });

  it('resolves the result of a reader that stops at the `run-end` without leaving', async () => {
    const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(ask());
    const iterator = handle[Symbol.asyncIterator]() as AsyncIterator<LoopEvent, undefined>;
    for (let next = await iterator.next(); next.value?.type !== 'run-end';)
      next = await iterator.next();
    expect(await handle.result).toMatchObject({ finishReason: 'stop' });
  });

  it("ends for a slow reader too when the run's time is up, and loses no event", async () => {
    const handle = (await openShop(new EndlessModel())).open(ask({ limits: { runMs: 20 } }));
    const iterator = handle[Symbol.asyncIterator]() as AsyncIterator<LoopEvent, undefined>;
    const read = [await iterator.next(), await iterator.next(), await iterator.next()];
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'timeout' });
    for (let next = await iterator.next(); !next.done; next = await iterator.next())
      read.push(next);
    expectRunEndsOnce(read.flatMap(({ value }) => value ?? []));
  });

  it("does not count the reader's own time as the model's silence", async () => {
    const model = new ScriptedModel([text('one two three')]);
    const handle = (await openShop(model)).open(ask({ limits: { modelIdleMs: 15 } }));
    for await (const { type } of handle)
      if (type === 'text-delta') await new Promise((resolve) => setTimeout(resolve, 25));
    expect(await resultOf(handle)).toMatchObject({ finishReason: 'stop' });
  });
});
