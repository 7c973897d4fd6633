import { describe, expect, it } from '@jest/globals';
import { Expose } from 'class-transformer';
import { Readable } from 'node:stream';
import { ProjectionError } from '../../src/schema/projection-walk.js';
import { compileReveal } from '../../src/schema/reveal.js';

class Customer {
  @Expose() readonly id = 'c-1';
  readonly passwordHash = 'hash';

  constructor(readonly tags = new Set(['vip'])) {
    Object.defineProperty(this, 'hidden', { value: 'x', enumerable: false });
  }

  get initials(): string {
    return 'A';
  }

  get broken(): string {
    throw new Error('S3CRET');
  }

  secret(): string {
    return this.passwordHash;
  }
}

function reveal(fields: 'all' | readonly string[], value: unknown): unknown {
  return compileReveal(fields).project(value, 'model');
}

function errorOf(fields: 'all' | readonly string[], value: unknown): ProjectionError {
  try {
    reveal(fields, value);
  } catch (error) {
    if (error instanceof ProjectionError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe("reveal: 'all'", () => {
  it.each([
    ['text', 'a', 'a'],
    ['a number', 1.5, 1.5],
    ['NaN', Number.NaN, null],
    ['a boolean', false, false],
    ['null', null, null],
    ['nothing', undefined, null],
    ['a function', () => 1, null],
    ['a bigint', 12n, '12'],
    ['a Date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['a Map', new Map([['a', new Set([1n])]]), { a: ['1'] }],
    ['a plain object', { a: [{ b: undefined, c: null }], d: () => 1 }, { a: [{ c: null }] }],
    [
      'a class with a scalar as JSON',
      { at: new URL('https://acme.test/') },
      { at: 'https://acme.test/' },
    ],
  ])('shows %s', (_, value, json) => {
    expect(reveal('all', value)).toEqual(json);
  });

  it.each([
    ['an instance', new Customer(), '', 'Declare `output: Customer`'],
    [
      'an instance somewhere',
      { customers: [new Customer()] },
      'customers.0',
      'Declare `output: Customer`',
    ],
    [
      'an instance in a Map',
      new Map([['ada@acme.test', new Customer()]]),
      '*',
      'Declare `output: Customer`',
    ],
    ['a Promise', [Promise.resolve(1)], '0', 'Promise.all()'],
    ['a Buffer', Buffer.from('a'), '', 'Return its text, a base64 string, or a link to it.'],
    ['a typed array', { data: new Float32Array(2) }, 'data', 'base64'],
    ['bytes', { data: new ArrayBuffer(2) }, 'data', 'base64'],
    ['a Blob', new Blob(['a']), '', 'base64'],
    ['a stream', { file: Readable.from(['a']) }, 'file', 'Read it first'],
    ['a Map under objects', new Map([[{}, 1]]), '*', 'Use strings as keys.'],
  ])('refuses %s', (_, value, path, remedy) => {
    const error = errorOf('all', value);
    expect(error.path).toBe(path);
    expect(error.message).toContain(remedy);
    expect(error.message).not.toContain('ada@acme.test');
  });

  it('refuses cycles and bottomless nesting', () => {
    const cycle: { self?: unknown } = {};
    cycle.self = [cycle];
    expect(errorOf('all', cycle).path).toBe('self.0');
    let deep: unknown = {};
    for (let level = 0; level < 100_000; level += 1) deep = { deep };
    expect(errorOf('all', deep).message).toContain('64 levels');
  });

  it('keeps to itself what a getter threw', () => {
    const error = errorOf('all', {
      get value(): string {
        throw new Error('S3CRET');
      },
    });
    expect(error).toMatchObject({ path: 'value', cause: new Error('S3CRET') });
    expect(error.message).not.toContain('S3CRET');
  });
});

describe('reveal: names', () => {
  it('picks them from a plain object, and copies what they hold', () => {
    expect(reveal(['a', 'b', 'absent'], { a: { x: 1, y: [2n] }, b: undefined, c: 3 })).toEqual({
      a: { x: 1, y: ['2'] },
    });
  });

  it('picks own properties and getters of an instance, never a method or what is not enumerable', () => {
    const names = [
      'id',
      'initials',
      'tags',
      'secret',
      'hidden',
      'constructor',
      'toString',
      '__proto__',
    ];
    expect(reveal(names, new Customer())).toEqual({ id: 'c-1', initials: 'A', tags: ['vip'] });
    expect(reveal(names, new (class extends Customer {})())).toEqual({
      id: 'c-1',
      initials: 'A',
      tags: ['vip'],
    });
  });

  it('picks them from every object of a list', () => {
    expect(reveal(['id'], [new Customer(), { id: 2, x: 3 }, null])).toEqual([
      { id: 'c-1' },
      { id: 2 },
      null,
    ]);
    expect(reveal(['id'], undefined)).toBeNull();
  });

  it('picks no prototype, even where an object has a property of that name', () => {
    expect(
      JSON.stringify(reveal(['__proto__', 'a'], JSON.parse('{"__proto__":{"x":1},"a":1}'))),
    ).toBe('{"a":1}');
  });

  it.each([
    ['a scalar', 'text', 'is a string, which has no fields to pick'],
    ['a scalar in a list', [1], 'is a number, which has no fields to pick'],
    ['a Date', new Date(), 'is a Date, which has no fields to pick'],
    ['a Map', new Map(), 'is a Map, which has no fields to pick'],
    ['a Promise', Promise.resolve(), 'is a Promise'],
    ['a Buffer', Buffer.from('a'), 'is binary data'],
    ['an instance in a field', { id: new Customer() }, 'is an instance of Customer'],
  ])('refuses %s', (_, value, problem) => {
    expect(errorOf(['id'], value).message).toContain(problem);
  });

  it('says which getter threw, and not what', () => {
    expect(errorOf(['broken'], [new Customer()])).toMatchObject({
      path: '0.broken',
      message: expect.not.stringContaining('S3CRET'),
    });
  });
});

describe('reveal: []', () => {
  it.each([[undefined], ['secret'], [{ secret: 1 }], [new Customer()]])(
    'shows nothing of %p',
    (value) => {
      expect(reveal([], value)).toBeNull();
    },
  );
});
