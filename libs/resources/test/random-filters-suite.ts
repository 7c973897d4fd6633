import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { JsonObject, JsonValue } from '@toolloop/core';
import * as fc from 'fast-check';
import { cases } from '../../../test/cases.js';
import { Customer, Order, Shop } from './shop.js';
import type { Storing } from './shop-storage.js';

/** A row as a plain object, with its customer in it. */
interface Plain {
  readonly id: number;
  readonly customer: Plain | null;
  readonly [field: string]: string | number | boolean | null | Plain;
}

const textFrom = (minLength: number): fc.Arbitrary<string> =>
  fc.string({
    unit: fc.constantFrom('a', 'B', 'b', '%', '_', '\\', "'", ' ', '?', ':', '$', '"'),
    minLength,
    maxLength: 4,
  });
const text = textFrom(0);
/** An empty part of a text is no condition, and refused. */
const partOfText = textFrom(1);
const whole = fc.integer({ min: -3, max: 3 });
const day = fc.constantFrom('2025-12-31', '2026-01-01', '2026-02-28', '2026-03-01');
const moment = fc.constantFrom(
  '2026-01-01T00:00:00.000Z',
  '2026-01-01T00:00:00.001Z',
  '2026-06-01T12:00:00.500Z',
);
const orNull = <Value>(values: fc.Arbitrary<Value>): fc.Arbitrary<Value | null> =>
  fc.option(values, { nil: null, freq: 3 });

const FIELDS: Readonly<Record<string, fc.Arbitrary<JsonValue>>> = {
  pieces: whole,
  rating: whole,
  total: fc.integer({ min: -300, max: 300 }).map((cents) => cents / 100),
  weight: fc.constantFrom(-1.5, 0, 0.25, 3),
  note: text,
  status: fc.constantFrom('new', 'paid', 'cancelled'),
  express: fc.boolean(),
  placedOn: day,
  shippedAt: moment,
};

const row = fc.record({
  pieces: whole,
  rating: orNull(whole),
  total: FIELDS['total'] as fc.Arbitrary<number>,
  weight: orNull(fc.constantFrom(-1.5, 0, 0.25, 3)),
  note: orNull(text),
  status: fc.constantFrom('new', 'paid', 'cancelled'),
  express: fc.boolean(),
  placedOn: orNull(day),
  shippedAt: orNull(moment),
  customer: orNull(fc.nat(3)),
});
const customerRow = fc.record({ name: text, city: orNull(text) });

const ordered = (value: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonObject>[] =>
  ['gt', 'gte', 'lt', 'lte'].map((operator) => value.map((one) => ({ [operator]: one })));
const equal = (value: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonObject>[] => [
  value.map((eq) => ({ eq })),
  value.map((ne) => ({ ne })),
  fc.array(value, { maxLength: 3 }).map((values) => ({ in: values })),
  fc.boolean().map((isNull) => ({ is_null: isNull })),
];
const comparison = (name: string, value: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonObject> => {
  if (name === 'express')
    return fc.oneof(
      value.map((eq) => ({ eq })),
      fc.boolean().map((isNull) => ({ is_null: isNull })),
    );
  if (name === 'status') return fc.oneof(...equal(value));
  const like = ['contains', 'starts_with'].map((operator) =>
    partOfText.map((one) => ({ [operator]: one })),
  );
  const isText = ['note', 'name', 'city'].includes(name);
  const one = fc.oneof(...equal(value), ...(isText ? like : ordered(value)));
  return fc.oneof(
    { weight: 4, arbitrary: one },
    {
      weight: 1,
      arbitrary: fc.tuple(one, one).map(([a, b]): JsonObject => Object.assign({}, a, b)),
    },
  );
};
const leaf = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .constantFrom(...Object.entries(FIELDS))
      .chain(([name, value]) => comparison(name, value).map((one) => ({ [name]: one }))),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('name', 'city')
      .chain((name) => comparison(name, text).map((one) => ({ customer: { [name]: one } }))),
  },
);
const { filter } = fc.letrec<{ filter: JsonObject; node: JsonObject }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 2 },
    leaf,
    fc.array(tie('filter'), { minLength: 1, maxLength: 3 }).map((and) => ({ and })),
    fc.array(tie('filter'), { minLength: 1, maxLength: 3 }).map((or) => ({ or })),
    tie('filter').map((not) => ({ not })),
  ),
  filter: fc.oneof(
    { maxDepth: 2 },
    tie('node'),
    fc.tuple(tie('node'), leaf).map(([one, other]): JsonObject => Object.assign({}, one, other)),
  ),
}));

/** The same filter over plain values, written without a look at how the database has it. */
function matches(plain: Plain, condition: JsonObject): boolean {
  return Object.entries(condition).every(([name, value]) => {
    if (name === 'and') return (value as JsonObject[]).every((one) => matches(plain, one));
    if (name === 'or') return (value as JsonObject[]).some((one) => matches(plain, one));
    if (name === 'not') return !matches(plain, value as JsonObject);
    if (name === 'customer')
      return plain.customer !== null && matches(plain.customer, value as JsonObject);
    return Object.entries(value as JsonObject).every(([operator, operand]) =>
      compare(plain[name] as JsonValue, operator, operand),
    );
  });
}

function compare(value: JsonValue, operator: string, operand: JsonValue): boolean {
  if (operator === 'is_null') return (value === null) === operand;
  if (operator === 'ne') return value !== operand;
  if (value === null) return false;
  if (operator === 'eq') return value === operand;
  if (operator === 'in') return (operand as readonly JsonValue[]).includes(value);
  if (operator === 'contains' || operator === 'starts_with')
    return isLike(value as string, operator, operand as string);
  const [one, other] = [value as number, operand as number];
  return (
    { gt: one > other, gte: one >= other, lt: one < other, lte: one <= other }[operator] ?? false
  );
}

function isLike(value: string, operator: 'contains' | 'starts_with', operand: string): boolean {
  const place = value.toLowerCase().indexOf(operand.toLowerCase());
  return operator === 'contains' ? place >= 0 : place === 0;
}

/** What random filters find, on any database. */
export function findsWhatArraysFind(storing: Storing): void {
  let shop: Shop;
  let plain: readonly Plain[];
  beforeAll(async () => {
    shop = await Shop.start({ storing });
    const { storage } = shop;
    const [customers = []] = fc.sample(fc.array(customerRow, { minLength: 4, maxLength: 4 }), {
      numRuns: 1,
      seed: 7,
    });
    const made = await storage.insert(
      Customer,
      customers.map((one, index) => ({ ...one, tenant: 'acme', email: `${index}@example.com` })),
    );
    const rows = fc.sample(row, { numRuns: 40, seed: 7 });
    const orders = await storage.insert(
      Order,
      rows.map(({ customer, total, shippedAt, ...one }, index) => ({
        ...one,
        total: total.toFixed(2),
        shippedAt: shippedAt && new Date(shippedAt),
        customer: customer === null ? null : made[customer]?.id,
        tenant: 'acme',
        number: `n-${index}`,
      })),
    );
    plain = rows.map((one, index) => {
      const customer =
        one.customer === null
          ? null
          : (Object.assign({ id: 0, customer: null }, customers[one.customer]) as Plain);
      return Object.assign(one, { customer, id: orders[index]?.id ?? 0 });
    });
  });
  afterAll(() => shop?.close());

  it('finds by a random filter what the same filter finds in plain arrays', async () => {
    await fc.assert(
      fc.asyncProperty(filter, async (condition) => {
        const expected = plain.filter((one) => matches(one, condition)).map(({ id }) => id);
        const { rows } = (await shop.read('orders__read', {
          filter: condition,
          select: ['id'],
          limit: 50,
        })) as {
          readonly rows: readonly Plain[];
        };
        expect(rows.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual(
          expected.toSorted((a, b) => a - b),
        );
        expect(
          await shop.read('orders__read', { filter: condition, result_type: 'count' }),
        ).toEqual({ count: expected.length });
      }),
      { numRuns: cases(400) },
    );
  });
}
