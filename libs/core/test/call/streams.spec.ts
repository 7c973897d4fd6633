import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Readable } from 'node:stream';
import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import { type ToolCallContext, ToolError } from '@toolloop/core';
import type { LoopEventBody } from '@toolloop/protocol';
import { Expose } from 'class-transformer';
import { EMPTY, NEVER, Observable, concat, of, throwError, timer } from 'rxjs';
import { ProjectionCompiler } from '../../src/schema/result-projection.js';
import { toolOf, type RawTool } from '../tools/tools.js';
import { Bench, errorOf, type RunOptions } from './bench.js';

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start();
});

/**
 * A rejection that nobody handles, and an exception that nobody catches, fail a test: they are
 * given the time to.
 */
afterEach(async () => {
  await wait(20);
});

function runOf(invoke: NonNullable<RawTool['invoke']>, options: RunOptions = {}) {
  return bench.run({
    tools: [toolOf({ id: 'tool', invoke })],
    policies: [{ allow: ['tool'] }],
    ...options,
  });
}

function progressIn(events: readonly LoopEventBody[]): unknown[] {
  return events.flatMap((event) => (event.type === 'tool-progress' ? [event.value] : []));
}

/** Yields each value a little later, and throws what is an error. */
async function* generate(...values: unknown[]): AsyncGenerator {
  for (const value of values) {
    await wait(1);
    if (value instanceof Error) throw value;
    yield value;
  }
}

const count = (): AsyncGenerator => generate(1, 2, 3);

class Customer {
  @Expose() name = 'Ada';
  secret = 'hidden';
}

function tellsOnItsWay(_: unknown, context: ToolCallContext): string {
  context.progress({ percent: 50 });
  context.progress(new Customer());
  context.progress(undefined);
  return 'done';
}

function refuseProgress({ type }: LoopEventBody): Promise<void> | void {
  if (type === 'tool-progress') return Promise.reject(new Error('the reader is gone'));
}

async function* begunBy(begin: () => void): AsyncGenerator {
  begin();
  yield* generate(1);
}

const streams: [string, () => unknown][] = [
  ['an async generator', count],
  ['an Observable', () => of(1, 2, 3)],
  [
    'an Observable that takes its time',
    () =>
      new Observable(
        (reader) => void emitSlowly(reader.next.bind(reader), () => reader.complete()),
      ),
  ],
  ['a promise of an async generator', async () => wait(1, count())],
  ['a promise of an Observable', async () => wait(1, of(1, 2, 3))],
];

async function emitSlowly(next: (value: number) => void, complete: () => void): Promise<void> {
  for (const value of [1, 2, 3]) {
    await wait(1);
    next(value);
  }
  complete();
}

describe('a result that streams', () => {
  it.each(streams)('is progress, and its last value the result: %s', async (_, invoke) => {
    const run = runOf(invoke);
    const outcome = await run.exec('tool');
    expect(progressIn(run.events)).toEqual([1, 2]);
    expect([outcome.content, outcome.live]).toEqual(['3', 3]);
  });

  it.each<[string, () => unknown]>([
    ['an Observable', () => EMPTY],
    ['an async generator', () => generate()],
  ])('is like a method that returns nothing when it is empty: %s', async (_, invoke) => {
    const run = runOf(invoke);
    expect((await run.exec('tool')).content).toBe('{"ok":true}');
    expect(progressIn(run.events)).toEqual([]);
  });

  it.each<[string, () => unknown]>([
    [
      'an Observable',
      () =>
        concat(
          of(1),
          throwError(() => new ToolError('Paper jam.')),
        ),
    ],
    ['an async generator', () => generate(1, new ToolError('Paper jam.'))],
  ])('has failed when its stream fails: %s', async (_, invoke) => {
    expect(errorOf(await runOf(invoke).exec('tool')).detail).toBe('Paper jam.');
  });

  it.each<[string, () => unknown]>([
    [
      'a generator',
      function* () {
        yield 'p';
        yield 'q';
        return 'ok';
      },
    ],
    [
      'an async generator',
      async function* () {
        yield 'p';
        yield await wait(1, 'q');
        return 'ok';
      },
    ],
  ])(
    'has the value that a generator returns as its result, and those that it yields as progress: %s',
    async (_, invoke) => {
      const run = runOf(invoke);
      expect((await run.exec('tool')).content).toBe('ok');
      expect(progressIn(run.events)).toEqual(['p', 'q']);
    },
  );

  it('is read no faster than its progress is shown', async () => {
    const order: string[] = [];
    const invoke = async function* lines(): AsyncGenerator<number> {
      for (const value of [1, 2, 3]) {
        await wait(0);
        order.push(`made ${value}`);
        yield value;
      }
    };
    const emit = async ({ type }: LoopEventBody): Promise<void> => {
      await wait(2);
      if (type === 'tool-progress') order.push('shown');
    };
    await runOf(invoke, { emit }).exec('tool');
    expect(order).toEqual(['made 1', 'made 2', 'shown', 'made 3', 'shown']);
  });
});

describe('progress', () => {
  it('is projected like the result', async () => {
    const tool = toolOf({
      id: 'tool',
      invoke: () => of(new Customer(), { name: 'Eve', secret: 'x' }, new Customer()),
    });
    const output = new ProjectionCompiler().compile({
      type: Customer,
      list: false,
      nullable: false,
    });
    const run = runOf(count, { tools: [{ ...tool, output }] });
    const outcome = await run.exec('tool');
    expect(progressIn(run.events)).toEqual([{ name: 'Ada' }, { name: 'Eve' }]);
    expect(outcome.content).toBe('{"name":"Ada"}');
  });

  it.each<[string, () => unknown]>([
    ['an Observable', () => of(1, new Customer(), 3)],
    ['an async generator', () => generate(1, new Customer(), 3)],
  ])(
    'is left out and reported to the developer when it may not be shown, and the call continues: %s',
    async (_, invoke) => {
      const run = runOf(invoke);
      expect((await run.exec('tool')).content).toBe('3');
      expect(progressIn(run.events)).toEqual([1]);
      expect(bench.logger.warnings().map(({ message }) => message)).toEqual([
        'A progress value of tool cannot be shown (run run_1).',
      ]);
    },
  );

  it('may be told through the context as well', async () => {
    const run = runOf(tellsOnItsWay);
    expect((await run.exec('tool')).content).toBe('done');
    expect(progressIn(run.events)).toEqual([{ percent: 50 }, null]);
  });

  it.each<[string, () => unknown]>([
    ['an Observable', () => of(1, 2, 3)],
    ['an async generator', count],
  ])('is no failure of the call when it has no reader: %s', async (_, invoke) => {
    expect((await runOf(invoke, { emit: refuseProgress }).exec('tool')).content).toBe('3');
  });
});

describe('invariant 11: an interrupted stream', () => {
  it('invariant 11: is unsubscribed from', async () => {
    const controller = new AbortController();
    let isOpen = false;
    const source = new Observable<number>((reader) => {
      isOpen = true;
      reader.next(1);
      return () => (isOpen = false);
    });
    const pending = runOf(() => source, { signal: controller.signal }).exec('tool');
    await wait(5);
    expect(isOpen).toBe(true);
    controller.abort();
    expect((await pending).record.error?.code).toBe('aborted');
    expect(isOpen).toBe(false);
  });

  it('invariant 11: is unsubscribed from when its time is up', async () => {
    let closed = 0;
    const source = new Observable<number>(() => () => (closed += 1));
    const outcome = await runOf(() => source, { limits: { toolCallMs: 10 } }).exec('tool');
    expect([outcome.record.error?.code, closed]).toEqual(['timeout', 1]);
  });

  it('invariant 11: is closed, if it is a generator, at its next step', async () => {
    const controller = new AbortController();
    const steps: string[] = [];
    const invoke = async function* lines(): AsyncGenerator<number> {
      try {
        for (let value = 1; ; value += 1) {
          await wait(2);
          steps.push('made');
          yield value;
        }
      } finally {
        steps.push('closed');
      }
    };
    const pending = runOf(invoke, { signal: controller.signal }).exec('tool');
    await wait(7);
    controller.abort();
    await pending;
    await wait(10);
    expect(steps.at(-1)).toBe('closed');
  });

  it('invariant 11: is told at once, while it waits for its next value', async () => {
    const controller = new AbortController();
    let returned = 0;
    const source: AsyncIterable<never> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => undefined),
        return: () => {
          returned += 1;
          return Promise.reject(new Error('cannot close'));
        },
      }),
    };
    const pending = runOf(() => source, { signal: controller.signal }).exec('tool');
    await wait(5);
    controller.abort();
    await pending;
    expect(returned).toBe(1);
  });

  it('invariant 11: is read no further, though its source continues', async () => {
    const controller = new AbortController();
    const asked: ((next: IteratorResult<number>) => void)[] = [];
    const source: AsyncIterable<number> = {
      [Symbol.asyncIterator]: () => ({ next: () => new Promise((resolve) => asked.push(resolve)) }),
    };
    const run = runOf(() => source, { signal: controller.signal });
    const pending = run.exec('tool');
    for (const value of [1, 2]) {
      while (asked.length < value) await setImmediate();
      asked.at(-1)?.({ done: false, value });
    }
    while (asked.length < 3) await setImmediate();
    controller.abort();
    await pending;
    asked.at(-1)?.({ done: false, value: 3 });
    for (let turns = 0; turns < 5; turns += 1) await setImmediate();
    expect(asked).toHaveLength(3);
    expect(progressIn(run.events)).toEqual([1]);
  });

  it.each<[string, (begin: () => void) => unknown]>([
    ['an Observable', (begin) => new Observable(() => begin())],
    ['an async generator', (begin) => begunBy(begin)],
  ])('invariant 11: is not begun when it comes too late: %s', async (_, streamOf) => {
    let begun = 0;
    const invoke = async (): Promise<unknown> => {
      await wait(15);
      return streamOf(() => (begun += 1));
    };
    const outcome = await runOf(invoke, { limits: { toolCallMs: 5 } }).exec('tool');
    await wait(25);
    expect([outcome.record.error?.code, begun]).toEqual(['timeout', 0]);
  });

  it.each<[string, () => unknown]>([
    ['that never ends', () => concat(of(1, 2), NEVER)],
    ['that says something now and then', () => timer(0, 3)],
  ])(
    'invariant 11: says nothing after the call has its outcome: an Observable %s',
    async (_, invoke) => {
      const run = runOf(invoke, { limits: { toolCallMs: 10 } });
      await run.exec('tool');
      await wait(15);
      expect(run.events.at(-1)?.type).toBe('tool-result');
    },
  );
});

/** A tool that changes things, a value at a time. */
function* changing(changed: unknown[]): Generator {
  for (const value of [1, 2, 3]) {
    changed.push(value);
    yield value;
  }
}

describe('a generator that does not wait', () => {
  it('runs to its end, and is told as an asynchronous one is', async () => {
    const changed: unknown[] = [];
    const tool = toolOf({ id: 'tool', effect: 'state_change', invoke: () => changing(changed) });
    const run = bench.run({ tools: [tool], policies: [{ allow: ['tool'] }] });
    expect((await run.exec('tool')).record).toMatchObject({ status: 'succeeded', result: 3 });
    expect(changed).toEqual([1, 2, 3]);
    expect(progressIn(run.events)).toEqual([1, 2]);
  });

  it('fails with what it throws, also behind a promise', async () => {
    const run = runOf(() => Promise.resolve(throwing()));
    expect(errorOf(await run.exec('tool'))).toMatchObject({
      code: 'execution_failed',
      detail: 'No more.',
    });
  });

  it('is stopped in time though it has no end', async () => {
    const run = runOf(() => endless(), { limits: { toolCallMs: 50 } });
    expect((await run.exec('tool')).record.error?.code).toBe('timeout');
  });
});

function* throwing(): Generator {
  yield 1;
  throw new ToolError('No more.');
}

function* endless(): Generator {
  for (let value = 0; ; value += 1) yield value;
}

const BYTES = [...new TextEncoder().encode('Grüße, Ada')].map((byte) => Uint8Array.of(byte));

function webStream(chunks: readonly unknown[]): ReadableStream {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

describe('a stream of text or bytes', () => {
  it.each<[string, () => unknown]>([
    ['a stream of Node of text', () => Readable.from(['Grüße, ', 'Ada'], { objectMode: false })],
    [
      'a stream of Node of bytes, cut within a letter',
      () => Readable.from(BYTES, { objectMode: false }),
    ],
    ['a stream of Node of texts as values', () => Readable.from(['Grüße, ', 'Ada'])],
    ['a stream of Node of bytes as values', () => Readable.from(BYTES)],
    ['a stream of the web of bytes', () => webStream(BYTES)],
    ['a stream of the web of text', () => webStream(['Grüße', ', Ada'])],
    ['the body of a response', () => new Response('Grüße, Ada').body],
  ])('is read whole: %s', async (_, stream) => {
    const run = runOf(stream);
    expect((await run.exec('tool')).content).toBe('Grüße, Ada');
    expect(progressIn(run.events)).toEqual([]);
  });

  it('is an empty text where it is empty', async () => {
    expect((await runOf(() => webStream([])).exec('tool')).record.result).toBe('');
  });

  it.each<[string, () => unknown]>([
    ['a stream of Node', () => Readable.from([{ a: 1 }, { a: 2 }])],
    ['a stream of the web', () => webStream([{ a: 1 }, { a: 2 }])],
  ])('gives its last value where its chunks are values: %s', async (_, stream) => {
    const run = runOf(stream);
    expect((await run.exec('tool')).record.result).toEqual({ a: 2 });
    expect(progressIn(run.events)).toEqual([{ a: 1 }]);
  });

  it('gives its last value where texts stand among its values', async () => {
    const run = runOf(() => Readable.from(['a', { b: 1 }, 'c']));
    expect((await run.exec('tool')).record.result).toBe('c');
    expect(progressIn(run.events)).toEqual(['a', { b: 1 }]);
  });

  it('is read no further than a model could ever be shown', async () => {
    let pulled = 0;
    const stream = new ReadableStream({
      pull(controller) {
        pulled += 1;
        controller.enqueue('x'.repeat(1024 * 1024));
      },
    });
    expect((await runOf(() => stream).exec('tool')).record).toMatchObject({
      status: 'succeeded',
      truncated: true,
    });
    expect(pulled).toBeLessThan(12);
  });
});
