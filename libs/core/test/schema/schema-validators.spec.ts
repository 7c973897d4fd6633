import { describe, expect, it } from '@jest/globals';
import type { JSONSchema7 } from 'json-schema';
import * as fc from 'fast-check';
import { needsUnicode } from '../../src/schema/patterns.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import { cpuSecondsOf } from '../fixtures/time.js';

const validators = new SchemaValidators();
const closed = (properties: Record<string, JSONSchema7>, required: string[] = []): JSONSchema7 => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

/** What is said about one value under one schema. */
const messages = (schema: JSONSchema7, value: unknown): string[] =>
  validators.validate(closed({ value: schema }), { value }).map(({ message }) => message);

const AGES = '^(a+)+$';
const ALMOST = `${'a'.repeat(40)}!`;

/** Backtracking takes hours for these texts. */
const MOST_SECONDS = 2;

/** The processor's seconds that a check takes, and what it says. */
const timed = (
  schema: JSONSchema7,
  value: string,
  from = validators,
): { readonly seconds: number; readonly said: string[] } => {
  let said: string[] = [];
  const seconds = cpuSecondsOf(() => {
    said = from.validate(schema, { value }).map(({ message }) => message);
  });
  return { seconds, said };
};

const withId = (type: 'string' | 'number'): JSONSchema7 => ({
  $id: 'https://example.com/a',
  ...closed({ value: { type } }),
});

const two = (most: number): fc.Arbitrary<string> =>
  fc.integer({ min: 0, max: most }).map((number) => String(number).padStart(2, '0'));

/** A day that may not exist, and whether it does. */
const day = fc
  .tuple(
    fc.oneof(
      fc.constantFrom('0000', '1900', '2000', '2024', '2025', '9999'),
      fc.integer({ min: 1000, max: 9999 }).map(String),
    ),
    two(13),
    two(32),
  )
  .map(([year, month, date]) => {
    const inCycle = new Date(
      Date.UTC(2000 + (Number(year) % 400), Number(month) - 1, Number(date)),
    );
    return {
      text: `${year}-${month}-${date}`,
      isOne:
        [inCycle.getUTCMonth() + 1, inCycle.getUTCDate()].join() ===
        [Number(month), Number(date)].join(),
    };
  });
const clock = fc
  .tuple(two(25), two(61), two(61), fc.oneof(fc.constant(''), fc.stringMatching(/^\.\d{1,12}$/)))
  .map(([hour, minute, second, rest]) => ({
    text: `${hour}:${minute}:${second}${rest}`,
    isOne: Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60,
  }));
const zone = fc.oneof(
  fc.constantFrom('Z', 'z', '').map((text) => ({ text, isOne: text !== '' })),
  fc.tuple(fc.constantFrom('+', '-'), two(25), two(61)).map(([sign, hour, minute]) => ({
    text: `${sign}${hour}:${minute}`,
    isOne: Number(hour) < 24 && Number(minute) < 60,
  })),
);
/** A date and time of which any part may be impossible. */
const moment = fc
  .tuple(day, fc.constantFrom('T', 't', ' '), clock, zone)
  .map(([on, between, at, within]) => ({
    text: `${on.text}${between}${at.text}${within.text}`,
    isOne: on.isOne && at.isOne && within.isOne,
  }));

describe('SchemaValidators', () => {
  it('fills defaults into the data, at every depth', () => {
    const schema = closed({
      limit: { type: 'integer', default: 10 },
      page: { ...closed({ size: { type: 'integer', default: 5 } }), default: {} },
    });
    const data = {};
    expect(validators.validate(schema, data)).toEqual([]);
    expect(data).toEqual({ limit: 10, page: { size: 5 } });
  });

  it('gives each call a default of its own', () => {
    const schema = closed({ tags: { type: 'array', items: { type: 'string' }, default: [] } });
    const [one, other]: { tags?: unknown }[] = [{}, {}];
    validators.validate(schema, one);
    validators.validate(schema, other);
    expect(one?.tags).not.toBe(other?.tags);
  });

  it('coerces nothing and removes nothing', () => {
    const data = { limit: '10', other: 1 };
    expect(validators.validate(closed({ limit: { type: 'integer' } }), data)).toHaveLength(2);
    expect(data).toEqual({ limit: '10', other: 1 });
  });

  it.each<[JSONSchema7, unknown, string]>([
    [{ type: 'integer' }, 1.5, 'must be an integer'],
    [{ type: ['string', 'null'] }, 1, 'must be a string or null'],
    [{ type: 'object' }, [], 'must be an object'],
    [{ type: 'string', enum: ['a', 'b'] }, 'c', 'must be one of: a, b'],
    [{ type: 'string', enum: ['a', 'b'] }, 1, 'must be one of: a, b'],
    [
      { enum: Array.from({ length: 30 }, (_, index) => index) },
      'x',
      `must be one of: ${Array.from({ length: 20 })
        .map((_, i) => i)
        .join(', ')}, …`,
    ],
    [{ const: 'x' }, 'y', 'must be x'],
    [{ type: 'number', minimum: 1 }, 0, 'must be at least 1'],
    [{ type: 'number', maximum: 1 }, 2, 'must be at most 1'],
    [{ type: 'number', exclusiveMinimum: 0 }, 0, 'must be greater than 0'],
    [{ type: 'number', exclusiveMaximum: 0 }, 0, 'must be less than 0'],
    [{ type: 'number', multipleOf: 5 }, 3, 'must be a multiple of 5'],
    [{ type: 'string', minLength: 1 }, '', 'must not be empty'],
    [{ type: 'string', minLength: 3 }, 'ab', 'must be at least 3 characters long'],
    [{ type: 'string', maxLength: 1 }, 'ab', 'must be at most 1 character long'],
    [{ type: 'string', pattern: '^a' }, 'b', 'must match the pattern ^a'],
    [
      { type: 'string', format: 'date-time' },
      'soon',
      'must be a date and time such as 2026-01-31T09:30:00Z',
    ],
    [
      { type: 'string', format: 'uuid', pattern: '^1' },
      'x',
      'must be a UUID such as 123e4567-e89b-42d3-a456-426614174000',
    ],
    [{ type: 'string', format: 'hostname' }, '-', 'must be a valid hostname'],
    [{ type: 'array', minItems: 1 }, [], 'must have at least 1 item'],
    [{ type: 'array', maxItems: 2 }, [1, 2, 3], 'must have at most 2 items'],
    [
      { type: 'array', uniqueItems: true },
      ['a', 'a'],
      'must not hold the same item twice: items 0 and 1 are equal',
    ],
    [{ type: 'object', minProperties: 1 }, {}, 'must have at least 1 property'],
  ])('says of %j, given %j: %s', (schema, value, message) => {
    expect(messages(schema, value)).toEqual([message]);
  });

  it('points to what is missing', () => {
    const schema = closed({ 'a/b': closed({ city: { type: 'string' } }, ['city']) });
    expect(validators.validate(schema, { 'a/b': {} })).toEqual([
      { pointer: '/a~1b/city', message: 'is required' },
    ]);
  });

  it('suggests the argument that was meant', () => {
    const schema = closed({ customerName: {}, limit: {} });
    expect(validators.validate(schema, { costumerName: 'x' })).toEqual([
      {
        pointer: '/costumerName',
        message: 'unknown argument "costumerName"; did you mean "customerName"?',
      },
    ]);
    expect(validators.validate(schema, { foo: 1 })).toEqual([
      { pointer: '/foo', message: 'unknown argument "foo"; known: customerName, limit' },
    ]);
    expect(validators.validate(closed({}), { foo: 1 })).toEqual([
      { pointer: '/foo', message: 'unknown argument "foo"; there are none here' },
    ]);
  });

  it('says at most ten things', () => {
    const data = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`key${index}`, 1]));
    expect(validators.validate(closed({}), data)).toHaveLength(10);
  });

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype'])(
    'takes the key %s for an unknown argument',
    (key) => {
      const data = JSON.parse(`{ "${key}": { "polluted": true } }`) as object;
      expect(validators.validate(closed({ name: { type: 'string' } }), data)).toEqual([
        { pointer: `/${key}`, message: `unknown argument "${key}"; known: name` },
      ]);
      expect({}).not.toHaveProperty('polluted');
    },
  );

  it('does not take what every object inherits for an argument', () => {
    expect(
      validators.validate(
        closed(JSON.parse('{ "toString": {} }') as Record<string, JSONSchema7>, ['toString']),
        {},
      ),
    ).toEqual([{ pointer: '/toString', message: 'is required' }]);
  });

  it('refuses a whole that is no object', () => {
    expect(validators.validate(closed({}), null)).toEqual([
      { pointer: '', message: 'must be an object' },
    ]);
  });

  it('refuses a value nested deeper than the stack', () => {
    const schema: JSONSchema7 = {
      ...closed({ next: { $ref: '#/$defs/Node' } }),
      $defs: { Node: closed({ next: { $ref: '#/$defs/Node' } }) },
    };
    let data: object = {};
    for (let depth = 0; depth < 200_000; depth += 1) data = { next: data };
    expect(validators.validate(schema, data)).toEqual([
      { pointer: '', message: 'is nested deeper than 100 levels; send flatter arguments' },
    ]);
  });

  it('refuses numbers JSON cannot hold', () => {
    expect(messages({ type: 'number' }, JSON.parse('1e999'))).toEqual(['must be a number']);
  });

  it.each(['2026-01-31T09:30:00Z', '2026-01-31T09:30:00.5+02:00', '2024-02-29 00:00:00Z'])(
    'reads %s as a date and time',
    (value) => {
      expect(messages({ type: 'string', format: 'date-time' }, value)).toEqual([]);
      expect(Number.isNaN(new Date(value).getTime())).toBe(false);
    },
  );

  it.each([
    '2026-02-30T00:00:00Z',
    '2016-12-31T23:59:60Z',
    '2026-01-31',
    '2026-01-31T09:30:00',
    '2025-02-29T00:00:00Z',
  ])('does not read %s', (value) => {
    expect(messages({ type: 'string', format: 'date-time' }, value)).toHaveLength(1);
  });

  it('reads a date and time where there is that day and that time, and what it reads Date reads too', () => {
    fc.assert(
      fc.property(moment, ({ text, isOne }) => {
        const isRead = messages({ type: 'string', format: 'date-time' }, text).length === 0;
        expect([text, isRead, isRead && Number.isNaN(Date.parse(text))]).toEqual([
          text,
          isOne,
          false,
        ]);
      }),
      { numRuns: 3000 },
    );
  });

  it('runs patterns with the flag u only where they need it', () => {
    expect(messages({ type: 'string', pattern: String.raw`^[\w-.]+$` }, 'a-b.c')).toEqual([]);
    expect(messages({ type: 'string', pattern: String.raw`^\p{L}+$` }, 'é')).toEqual([]);
  });

  it('keeps apart two schemas with one $id', () => {
    expect(validators.validate(withId('string'), { value: 'a' })).toEqual([]);
    expect(validators.validate(withId('number'), { value: 1 })).toEqual([]);
  });

  it('puts up with keywords and formats it does not know', () => {
    expect(messages({ type: 'string', format: 'x-sku', 'x-order': 1 } as JSONSchema7, 'a')).toEqual(
      [],
    );
  });

  it('says what is wrong with a schema from outside', () => {
    expect(validators.problemWith(closed({ a: { type: 'string' } }))).toBeUndefined();
    expect(validators.problemWith(closed({ a: { type: 'text' } } as never))).toMatch(/type/);
    expect(validators.problemWith(closed({ a: { $ref: '#/$defs/Missing' } }))).toMatch(/Missing/);
  });
});

describe('a pattern that backtracking takes for ever with', () => {
  it.each<[string, JSONSchema7, string[]]>([
    [
      'is not run on a text that is too long',
      { type: 'string', maxLength: 20, pattern: '^(?=a)(a+)+$' },
      ['must be at most 20 characters long'],
    ],
    [
      'is not run on a text that is too short',
      { type: 'string', minLength: 50, pattern: '^(?=a)(a+)+$' },
      ['must be at least 50 characters long'],
    ],
    [
      'is run in linear time',
      { type: 'string', pattern: AGES },
      [`must match the pattern ${AGES}`],
    ],
    [
      'is run in linear time where it repeats a choice',
      { type: 'string', pattern: '^(?:a|aa)+$' },
      ['must match the pattern ^(?:a|aa)+$'],
    ],
    [
      'is run in linear time, with a group in it',
      { type: 'string', pattern: '^((?:a|b)*c?)*$' },
      ['must match the pattern ^((?:a|b)*c?)*$'],
    ],
  ])('%s', (_, schema, said) => {
    const result = timed(closed({ value: schema }), ALMOST);
    expect(result.said).toEqual(said);
    expect(result.seconds).toBeLessThan(MOST_SECONDS);
  });

  it('accepts what it accepted before', () => {
    const slug = closed({
      value: { type: 'string', pattern: '^[a-z0-9]+(?:-[a-z0-9]+)*$', maxLength: 20 },
    });
    expect(timed(slug, 'a-slug-2').said).toEqual([]);
    expect(timed(slug, 'a--slug').said).toEqual([
      'must match the pattern ^[a-z0-9]+(?:-[a-z0-9]+)*$',
    ]);
  });
});

const distrusting = (
  pattern: string,
): { readonly from: SchemaValidators; readonly schema: JSONSchema7 } => {
  const from = new SchemaValidators();
  const schema = closed({ value: { type: 'string', pattern } });
  from.distrust(schema);
  return { from, schema };
};

describe("a schema of the application's own that may not backtrack", () => {
  it('has the reason why it cannot be used, and its pattern is not run', () => {
    const schema = closed({ value: { type: 'string', pattern: '^(?=a)(a+)+$' } });
    const reason = expect.stringMatching(/^the linear engine cannot run its pattern \^\(\?=a\)/);
    expect([validators.problemWith(schema), validators.problemWith(schema)]).toEqual([
      reason,
      reason,
    ]);
    expect(timed(schema, ALMOST)).toMatchObject({ said: [] });
    expect(validators.unappliedPatterns(schema)).toEqual(['^(?=a)(a+)+$']);
  });
});

describe('a schema that is not trusted', () => {
  it.each([
    ['(x+x+)+y', 'x'.repeat(60)],
    ['(a|aa)+$', `${'a'.repeat(60)}!`],
    ['\\s*\\s*\\s*\\s*\\s*;', ' '.repeat(5_000)],
    ['^(?<word>\\w+\\s?)*$', `${'a '.repeat(40)}!`],
  ])('has its patterns run in linear time: %s', (pattern, value) => {
    const { from, schema } = distrusting(pattern);
    const { seconds, said } = timed(schema, value, from);
    expect(said).toEqual([`must match the pattern ${pattern}`]);
    expect(seconds).toBeLessThan(MOST_SECONDS);
    expect(from.unappliedPatterns(schema)).toEqual([]);
  });

  it.each([
    ['look-around', '^(?=a)(a+)+$'],
    ['a back reference', '^(a+)\\1$'],
    ['a repetition beyond what is run', 'a{2000}'],
    ['a program that is too large', '(?:[ab]{0,30}){30}'],
    ['a length beyond what is compiled', 'ab'.repeat(600)],
    ['an escape that means something else there', '\\Qa+\\E'],
  ])('does not apply a pattern with %s, and says so', (_, pattern) => {
    const { from, schema } = distrusting(pattern);
    expect(from.problemWith(schema)).toBeUndefined();
    expect(from.unappliedPatterns(schema)).toEqual([pattern]);
    expect(timed(schema, ALMOST, from)).toMatchObject({ said: [] });
  });

  it('says the same of an equal schema that another application has compiled', () => {
    const [first, second] = [distrusting('^(a+)\\1?$'), distrusting('^(a+)\\1?$')];
    for (const { from, schema } of [first, second]) {
      expect(from.problemWith(schema)).toBeUndefined();
      expect(from.unappliedPatterns(schema)).toEqual(['^(a+)\\1?$']);
    }
  });

  it('is compiled on its own beside an equal schema of the application, whose patterns are applied', () => {
    const pattern = '^(?=a)a+$';
    const own = closed({ value: { type: 'string', pattern } });
    validators.letBacktrack(own);
    expect(timed(own, 'b').said).toEqual([`must match the pattern ${pattern}`]);
    const { from, schema } = distrusting(pattern);
    expect(timed(schema, 'b', from).said).toEqual([]);
    const copy = structuredClone(own);
    validators.letBacktrack(copy);
    expect(timed(copy, 'b').said).toEqual([`must match the pattern ${pattern}`]);
  });

  it('cannot be used with a pattern that is none', () => {
    const { from, schema } = distrusting('(?i)a');
    expect(from.problemWith(schema)).toMatch(/Invalid/);
  });

  const PATTERNS = [
    '^a+b?$',
    '^[\\w-]+$',
    '^\\d{4}-\\d\\d$',
    '^(?:foo|bar)+$',
    '[^a-c]',
    '\\bfoo\\b',
    '^\\p{Lu}',
    'a|^b',
    '^.{2,3}$',
    '^\\/x\\u0041$',
    '^$',
  ];

  it.each(PATTERNS)('takes the texts that the pattern of JavaScript takes: %s', (pattern) => {
    const { from, schema } = distrusting(pattern);
    const expression = new RegExp(pattern, needsUnicode(pattern) ? 'u' : '');
    const arbitrary = fc.oneof(
      fc.string({ maxLength: 6 }),
      fc.stringMatching(/^[abfor2026\-/xA ]{0,8}$/),
    );
    fc.assert(
      fc.property(
        arbitrary,
        (value) => (timed(schema, value, from).said.length === 0) === expression.test(value),
      ),
      { numRuns: 200 },
    );
  });
});
