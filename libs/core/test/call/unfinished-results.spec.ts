import { beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import { tool, ToolError } from '@toolloop/core';
import { of } from 'rxjs';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf } from './bench.js';

const changed: unknown[] = [];
const change = (value: number): number => changed.push(value);
const changeLater = (value: number): Promise<number> => wait(1, change(value));

/** An iterator that is no generator, such as `values().map(act)` of a list. */
function lazily<Value>(
  values: Iterable<Value>,
  act: (value: Value) => unknown,
): IterableIterator<unknown> {
  const source = values[Symbol.iterator]();
  return {
    next: () => {
      const next = source.next();
      return next.done === true
        ? { done: true, value: undefined }
        : { done: false, value: act(next.value) };
    },
    [Symbol.iterator]() {
      return this;
    },
  };
}

const lazyChanges = (): unknown => lazily([5, 6], change);

function fail(): never {
  throw new ToolError('No more.');
}

function* endless(): Generator<number> {
  for (let value = 0; ; value += 1) yield value;
}

function* numbered(last: unknown): Generator {
  yield 0;
  yield last;
}

let bench: Bench;
let requests = 0;

const changes = (invoke: () => unknown) => {
  changed.length = 0;
  requests += 1;
  const requestId = `request_${requests}`;
  return bench
    .run({
      requestId,
      tools: [toolOf({ id: 'tool', effect: 'state_change', invoke })],
      policies: [{ allow: ['tool'] }],
    })
    .exec('tool');
};

beforeAll(async () => {
  const quiet = tool({
    id: 'quiet',
    description: 'Changes.',
    effect: 'state_change',
    reveal: [],
    execute: lazyChanges,
  });
  bench = await Bench.start({ options: { tools: [quiet] } });
});

describe('a result that has yet to do its work', () => {
  it.each<[string, () => unknown]>([
    ['an iterator of a list', () => lazily([5, 6], change)],
    ['an iterator behind a promise', async () => wait(1, lazily(new Set([5, 6]), change))],
    ['a list of promises', () => [5, 6].map(changeLater)],
    ['an iterator of promises', () => lazily([5, 6], changeLater)],
    ['an iterator that an Observable emits', () => of(lazily([5, 6], change))],
    ['a generator whose last value is an iterator', () => numbered(lazily([5, 6], change))],
  ])('has done it before it is told as done: %s', async (_, invoke) => {
    expect((await changes(invoke)).record).toMatchObject({ status: 'succeeded', result: [1, 2] });
    expect(changed).toEqual([5, 6]);
  });

  it('has done it where nothing of it is shown', async () => {
    changed.length = 0;
    expect((await bench.run().exec('quiet')).content).toBe('{"ok":true}');
    expect(changed).toEqual([5, 6]);
  });

  it.each<[string, () => unknown]>([
    ['an iterator', () => lazily([1], fail)],
    ['a list of promises', () => [Promise.resolve(1), Promise.reject(new ToolError('No more.'))]],
    ['an error that is returned and not thrown', () => new ToolError('No more.')],
    ['such an error behind a promise', () => Promise.resolve(new ToolError('No more.'))],
  ])('fails with what it throws: %s', async (_, invoke) => {
    expect(errorOf(await changes(invoke))).toMatchObject({
      code: 'execution_failed',
      detail: 'No more.',
    });
  });

  it.each<[string, () => unknown]>([
    ['a function', () => () => change(1)],
    ['a function behind a promise', () => Promise.resolve(() => change(1))],
  ])('is a failure where nothing will ever do it: %s', async (_, invoke) => {
    expect(errorOf(await changes(invoke)).code).toBe('execution_failed');
  });

  it('is refused where it has no end', async () => {
    expect(errorOf(await changes(() => lazily(endless(), String))).code).toBe('invalid_output');
  });
});
