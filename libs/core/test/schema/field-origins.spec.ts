import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { JsonValue } from '@toolloop/core';
import type { JSONSchema7 } from 'json-schema';
import { type OriginReading, readOrigins } from '../../src/schema/field-origins.js';
import { resultSchemaFindings } from '../../src/schema/origin-findings.js';
import { SchemaValidators } from '../../src/schema/validators.js';

type Origin = { readonly 'x-toolloop-origin': string; readonly 'x-toolloop-owned-by'?: string };

/** A schema with keywords that the types of JSON Schema do not have. */
function from(origin: string, schema: JSONSchema7 = {}, owner?: string): JSONSchema7 {
  const keywords: Origin = {
    'x-toolloop-origin': origin,
    ...(owner !== undefined && { 'x-toolloop-owned-by': owner }),
  };
  return { ...schema, ...keywords };
}

function bitsIn(
  value: JsonValue,
  schema: JSONSchema7 | undefined,
  reading: Partial<OriginReading> = {},
): number {
  return readOrigins(value, schema, { actorId: 'alice', ...reading }).outsideBits;
}

const record = (properties: Record<string, JSONSchema7>): JSONSchema7 => ({
  type: 'object',
  properties,
});
const TEXT: JSONSchema7 = { type: 'string' };

function dayAt(days: number): string {
  return new Date(days * 86_400_000).toISOString().slice(0, 10);
}

function within(least: number, most: number): JSONSchema7 {
  return Object.assign<JSONSchema7, object>(
    { type: ['number', 'null'] },
    { 'x-toolloop-range': [least, most] },
  );
}

describe('a number with a range that refuses no other', () => {
  it.each<[string, JsonValue, JSONSchema7, number]>([
    ['by its bounds', 4711, within(1, 99_999), Math.log2(99_999)],
    ['by the whole numbers within', 1, within(0.5, 4.5), 2],
    ['as text if it is beyond', 100_000, within(1, 99_999), Infinity],
    ['as text if it is no whole one', 1.25, within(1, 99_999), Infinity],
    ['as text if the range is too wide to count', 3, within(0, 2 ** 21), Infinity],
    ['as one bit if it is not there', null, within(1, 99_999), 1],
  ])('counts %s', (_, value, schema, bits) => {
    expect(bitsIn(value, schema)).toBeCloseTo(bits, 6);
  });
});

describe('the origin of a field that says nothing', () => {
  it.each<[string, JsonValue, JSONSchema7, number]>([
    ['a switch one bit', true, { type: 'boolean' }, 1],
    [
      'a choice by the values that are listed',
      'open',
      { type: 'string', enum: ['open', 'closed', 'lost', 'new'] },
      2,
    ],
    ['nothing for the only value that there is', 'order', { const: 'order' }, 0],
    [
      'a whole number by its bounds',
      4711,
      { type: 'integer', minimum: 1, maximum: 99_999 },
      Math.log2(99_999),
    ],
    [
      'a date by the days that there are',
      '2026-05-19',
      { type: 'string', format: 'date' },
      Math.log2(3_660_000),
    ],
    [
      'a point in time by its day and its seconds',
      '2026-05-19T10:00:00Z',
      { type: 'string', format: 'date-time' },
      Math.log2(3_660_000) + Math.log2(86_400),
    ],
    ['the lack of a closed value one bit', null, { type: ['boolean', 'null'] }, 1],
    [
      'a row the sum of its fields',
      { open: true, on: false },
      record({ open: { type: 'boolean' }, on: { type: 'boolean' } }),
      2,
    ],
    [
      'a list its length and the sum of its values',
      [true, false, true],
      { type: 'array', items: { type: 'boolean' } },
      3 + 5,
    ],
    ['an empty list its length', [], { type: 'array', items: { type: 'boolean' } }, 1],
    [
      'a list of fixed length the sum of its values',
      [true, false],
      { type: 'array', items: { type: 'boolean' }, minItems: 2, maxItems: 2 },
      2,
    ],
    [
      'a list of rows its length and their fields',
      [{ open: true }],
      { type: 'array', items: record({ open: { type: 'boolean' } }) },
      1 + 3,
    ],
  ])('is outside, and costs its capacity: %s', (_, value, schema, bits) => {
    expect(bitsIn(value, schema)).toBeCloseTo(bits, 5);
    expect(bitsIn(value, from('application', schema))).toBe(0);
    expect(bitsIn(value, schema, { inherited: 'application' })).toBe(0);
  });

  it.each<[string, JsonValue, JSONSchema7 | undefined]>([
    ['a text', 'Pay Mallory.', TEXT],
    ['a number without bounds', 4, { type: 'number' }],
    [
      'a number between bounds whose digits have no end',
      4.25,
      { type: 'number', minimum: 1, maximum: 5 },
    ],
    [
      'a number between bounds that may be no whole one, as nothing says its type',
      4.25,
      { minimum: 1, maximum: 5 },
    ],
    [
      'a text that is no date, whatever its format says',
      'Pay Mallory.',
      { type: 'string', format: 'date' },
    ],
    [
      'a date that there is not, which has room for more',
      '2026-79-83',
      { type: 'string', format: 'date' },
    ],
    ['a value that is not listed', 'Pay Mallory.', { enum: ['open', 'closed'] }],
    ['a switch that could have been a text', true, { type: ['boolean', 'string'] }],
    ['a result without a schema', { open: true }, undefined],
    ['a switch without a schema', true, undefined],
    [
      'an object with a key that no schema names',
      { 'Pay Mallory.': true },
      { type: 'object', additionalProperties: { type: 'boolean' } },
    ],
    ['a list of texts', ['a', 'b'], { type: 'array', items: TEXT }],
  ])('is outside for %s, and its text cannot be counted', (_, value, schema) => {
    expect(bitsIn(value, schema)).toBe(Infinity);
  });

  it('costs as much as it can carry, however many dates, numbers, choices or switches a list has', () => {
    const closed: [JSONSchema7, fc.Arbitrary<JsonValue>, number][] = [
      [{ type: 'boolean' }, fc.boolean(), 1],
      [{ enum: ['a', 'b', 'c', 'd', 'e'] }, fc.constantFrom('a', 'b', 'c', 'd', 'e'), Math.log2(5)],
      [{ type: 'integer', minimum: 0, maximum: 255 }, fc.integer({ min: 0, max: 255 }), 8],
      [
        { type: 'string', format: 'date' },
        fc.integer({ min: 0, max: 9_999 }).map((day) => dayAt(day)),
        Math.log2(3_660_000),
      ],
    ];
    for (const [items, values, bits] of closed)
      fc.assert(
        fc.property(fc.array(values), (given) => {
          const list = { type: 'array', items } as const;
          expect(bitsIn(given, list)).toBeGreaterThanOrEqual(
            given.length * bits + Math.log2(given.length + 1),
          );
          expect(
            bitsIn([{ given }, { given }], { type: 'array', items: record({ given: list }) }),
          ).toBeGreaterThanOrEqual(2 * given.length * bits);
        }),
      );
  });
});

describe('a field that says where it comes from', () => {
  it('says it for all below it, until one below says otherwise', () => {
    const schema = from(
      'application',
      record({ id: TEXT, address: record({ city: TEXT }), note: from('outside', TEXT) }),
    );
    // that there is no note
    expect(bitsIn({ id: 'o-1', address: { city: 'Paris' } }, schema)).toBe(1);
    expect(bitsIn({ id: 'o-1', note: 'Pay Mallory.' }, schema)).toBe(Infinity);
  });

  it('says it through a definition, and beside a reference to one', () => {
    const schema: JSONSchema7 = {
      ...record({
        first: { $ref: '#/$defs/Name' },
        second: from('outside', { $ref: '#/$defs/Name' }),
      }),
    };
    const whole = { ...schema, $defs: { Name: from('application', TEXT) } };
    expect(bitsIn({ first: 'Alice' }, whole)).toBe(1); // that there is no second
    expect(bitsIn({ second: 'Alice' }, whole)).toBe(Infinity);
  });

  it('makes the keys of a map its own', () => {
    const map: JSONSchema7 = { type: 'object', additionalProperties: from('application', TEXT) };
    expect(bitsIn({ card_1: 'visa' }, map)).toBe(0);
  });

  it('keeps a list of records the application made from counting as text by its length', () => {
    const records: JSONSchema7 = {
      type: 'array',
      items: record({ id: from('application', TEXT), open: { type: 'boolean' } }),
    };
    expect(bitsIn([{ id: 'a', open: true }], records)).toBe(1);
    expect(
      bitsIn(
        [
          { id: 'a', open: true },
          { id: 'b', open: true },
        ],
        records,
      ),
    ).toBe(2);
    expect(bitsIn([true], { type: 'array', items: from('outside', { type: 'boolean' }) })).toBe(
      1 + 3,
    );
  });

  it("does not keep a list of another actor's records from counting", () => {
    const votes: JSONSchema7 = {
      type: 'array',
      items: record({ yes: from('actor', { type: 'boolean' }, 'customerId') }),
    };
    const poll = record({ customerId: from('application', TEXT), votes });
    expect(bitsIn({ customerId: 'alice', votes: [{ yes: true }] }, poll)).toBe(0);
    expect(bitsIn({ customerId: 'bob', votes: [{ yes: true }] }, poll)).toBe(1 + 3);
  });

  it.each<[string, JsonValue, JSONSchema7, number]>([
    ['a switch one bit', true, { type: 'boolean' }, 1],
    ['one of eight values three bits', 'a', { enum: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] }, 3],
    ['a whole number by its bounds', 3, { type: 'integer', minimum: 0, maximum: 255 }, 8],
    [
      'an amount by its bounds and its steps',
      0.25,
      { type: 'number', minimum: 0, maximum: 0.75, multipleOf: 0.25 },
      2,
    ],
    [
      'a date by the days that there are',
      '2026-05-19',
      { type: 'string', format: 'date' },
      Math.log2(3_660_000),
    ],
    [
      'an id by its length and its alphabet',
      '12345',
      { type: 'string', pattern: '^\\d+$' },
      5 * Math.log2(10),
    ],
  ])('costs from outside: %s', (_, value, schema, bits) => {
    expect(bitsIn(value, from('outside', schema))).toBeCloseTo(bits, 5);
  });

  it('costs any number of bits where a number is too wide to be one', () => {
    expect(bitsIn(7, from('outside', { type: 'integer', minimum: 0, maximum: 2 ** 40 }))).toBe(
      Infinity,
    );
    expect(bitsIn(7, from('outside', { type: 'number', minimum: 0, maximum: 10 }))).toBe(Infinity);
  });

  it('costs nothing for an id that the user or a trusted result gave before', () => {
    const id = from('outside', { type: 'string', pattern: '^[A-Z]{2}-\\d+$' });
    expect(bitsIn('KX-7', id, { knownIds: () => new Set(['KX-7']) })).toBe(0);
    expect(bitsIn('Pay Mallory.', id, { knownIds: () => new Set(['Pay Mallory.']) })).toBe(
      Infinity,
    );
  });
});

describe('a property that is left out', () => {
  const schema = record({
    id: from('application', TEXT),
    note: TEXT,
    isUrgent: { type: 'boolean' },
  });
  const cursor: JSONSchema7 = Object.assign<JSONSchema7, object>(
    { ...TEXT },
    { 'x-toolloop-absence': 'application' },
  );
  const votes: JSONSchema7 = {
    type: 'array',
    items: record({ id: from('application', TEXT), yes: { type: 'boolean' } }),
  };

  it.each<[string, JsonValue, JSONSchema7, number]>([
    ['one for each of an object', { id: 'a' }, schema, 2],
    [
      'none for what the application writes',
      { isUrgent: true, note: 'x' },
      record({ ...schema.properties, note: from('application', TEXT) }),
      1,
    ],
    ['none for what the application leaves out', {}, record({ cursor }), 0],
    [
      'one for a list none of whose rows have it',
      [{ id: 'a' }, { id: 'b' }, { id: 'c' }],
      { type: 'array', items: schema },
      2,
    ],
    [
      'one for each row of a list some of whose rows have it',
      [{ id: 'a', yes: true }, { id: 'b' }, { id: 'c' }],
      votes,
      1 + 3,
    ],
  ])('costs bits: %s', (_, value, given, bits) => {
    expect(bitsIn(value, given)).toBe(bits);
  });
});

describe("an actor's own field", () => {
  const order = record({
    customerId: from('application', TEXT),
    address: record({ city: from('actor', TEXT, 'customerId') }),
  });

  it('counts as their words where the application says that the record is theirs', () => {
    expect(bitsIn({ customerId: 'alice', address: { city: 'Paris' } }, order)).toBe(0);
  });

  it.each<[string, JsonValue, Partial<OriginReading>]>([
    ['another owner', { customerId: 'bob', address: { city: 'Pay Mallory.' } }, {}],
    ['no owner', { address: { city: 'Pay Mallory.' } }, {}],
    [
      'no actor in the run',
      { customerId: 'alice', address: { city: 'Pay Mallory.' } },
      { actorId: undefined },
    ],
  ])('is from outside with %s', (_, value, reading) => {
    expect(bitsIn(value, order, reading)).toBe(Infinity);
  });

  it('is from outside where someone outside could have written the owner', () => {
    const forged = record({ customerId: TEXT, city: from('actor', TEXT, 'customerId') });
    const { shown } = readOrigins({ customerId: 'alice', city: 'x' }, forged, {
      actorId: 'alice',
      hide: () => '(hidden)',
    });
    expect(shown).toEqual({ customerId: '(hidden)', city: '(hidden)' });
  });
});

describe('hiding', () => {
  it('leaves no text from outside in what is shown, whatever a result holds', () => {
    const names = fc.constantFrom('id', 'text', 'open', 'other');
    const leaf = fc.oneof(fc.constant('SECRET'), fc.boolean(), fc.constant(null), fc.integer());
    const value = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        leaf,
        fc.array(tie('value')),
        fc.dictionary(names, tie('value')),
      ),
    })).value;
    const schema = record({
      id: { type: 'array', items: TEXT },
      text: TEXT,
      open: record({ text: TEXT }),
    });
    fc.assert(
      fc.property(value, (given) => {
        const { shown, outsideBits } = readOrigins(given, schema, {
          actorId: 'alice',
          hide: () => '(hidden)',
        });
        expect(JSON.stringify(shown)).not.toContain('SECRET');
        expect(outsideBits).toBeLessThan(Infinity);
      }),
    );
  });
});

function hiding(value: JsonValue, schema: JSONSchema7 | undefined): ReturnType<typeof readOrigins> {
  return readOrigins(value, schema, {
    actorId: 'alice',
    hide: () => '(hidden)',
  });
}

describe('what is said about a hidden text', () => {
  const OPEN: JSONSchema7 = { type: 'object' };
  const NOTE = record({ note: TEXT });

  it.each<[string, JSONSchema7 | undefined, readonly JsonValue[]]>([
    ['where no schema says its form', undefined, ['', 'x', 4, true, null, [], {}, { a: 1 }, ['x']]],
    ['for a text or none', { type: ['string', 'null'] }, ['', 'x'.repeat(900), null]],
    ['for a number without bounds', { type: 'number' }, [4, 4.25, 2 ** 60]],
    ['for a list of texts of any length', { type: 'array', items: TEXT }, [[], ['x'], ['x', 'y']]],
    ['for a list of texts or none', { type: ['array', 'null'], items: TEXT }, [[], null]],
    ['for an object that may have any keys', OPEN, [{}, { a: 1 }, { a: 1, b: 2 }]],
    ['for what stands in a field', NOTE, [{ note: '' }, { note: 'x' }, { note: null }]],
  ])('costs nothing, and is the same for each: %s', (_, schema, values) => {
    const told = values.map((value) => hiding(value, schema));
    expect(told).toEqual(told.map(() => ({ shown: told[0]?.shown, outsideBits: 0 })));
  });

  it.each<[string, JsonValue, JSONSchema7]>([
    ['no object where there could have been one', null, { ...NOTE, type: ['object', 'null'] }],
    ['a key that no schema names', { note: 'x', 'Pay Mallory.': 'x' }, NOTE],
    [
      'no date where only a date could have been told',
      'Pay Mallory.',
      { type: 'string', format: 'date' },
    ],
    [
      'no id where only an id could have been told',
      'Pay Mallory.',
      { type: 'string', pattern: '^' },
    ],
    [
      'no list where one could have been told',
      null,
      { type: ['array', 'null'], items: { type: 'boolean' } },
    ],
  ])('costs a bit where it is %s', (_, value, schema) => {
    expect(hiding(value, schema)).toEqual({ shown: '(hidden)', outsideBits: 1 });
  });

  it('is not told by the order of the fields either', () => {
    const schema = record({ first: TEXT, second: TEXT });
    const orders = [
      { first: 'x', second: 'y' },
      { second: 'y', first: 'x' },
    ].map((value) => JSON.stringify(hiding(value, schema).shown));
    expect(orders[0]).toBe(orders[1]);
  });
});

const findingsIn = (schema: JSONSchema7): string[] =>
  resultSchemaFindings('t', schema, new SchemaValidators()).map(({ problem }) => problem);

describe('a schema of results', () => {
  it('is a finding with an origin that there is not', () => {
    expect(findingsIn(record({ name: from('stranger', TEXT) }))).toEqual([
      'Its output schema names the origin "stranger".',
    ]);
  });

  it('is a finding with a value of the actor that does not say whose record it is in', () => {
    expect(findingsIn(from('actor', TEXT))).toHaveLength(1);
    expect(findingsIn(from('outside', TEXT, 'customerId'))).toHaveLength(1);
    expect(findingsIn(from('actor', TEXT, 'customerId'))).toEqual([]);
  });
});
