import { describe, expect, it } from '@jest/globals';
import type { Type as Class } from '@nestjs/common';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { Expose, Transform, Type } from 'class-transformer';
import { IsInt, IsNumber, Max, Min } from 'class-validator';
import * as fc from 'fast-check';
import type { JsonValue } from '@toolloop/core';
import { cases } from '../../../../test/cases.js';
import type { ResultProjector } from '../../src/contracts/result-projector.js';
import { outputSchema } from '../../src/schema/output-schema.js';
import { ProjectionError } from '../../src/schema/projection-walk.js';
import { ProjectionCompiler } from '../../src/schema/result-projection.js';

enum Status {
  Open = 'open',
  Paid = 'paid',
}

enum Priority {
  Low,
  High,
}

class Money {
  @Expose() amount?: number;
  @Expose() currency?: string;
}

class Order {
  @Expose() number?: string;
  @Expose({ name: 'placed_at' }) placedAt?: Date;
  @Expose() isPaid?: boolean;
  @Expose() status?: Status;
  @Expose() priority?: Priority;
  @Expose() total?: Money;
  @Expose() size?: bigint;
  @Expose() @Type(() => Customer) customer?: unknown;
  @Expose() @Type(() => Date) history?: readonly Date[];
  @Expose() tags?: readonly string[];
  @Expose() anything?: unknown;
  @Expose() nullable?: string | null;
  @Expose() parent?: Order;
  @Expose() @Type(() => Money) @Transform(({ value }: { value: unknown }) => value) parts?: Money[];
  @Expose({ groups: ['ui'] }) color?: string;
  secret?: string;
}

class Rating {
  @Expose() @IsInt() @Min(1) @Max(5) stars?: number;
  @Expose() @IsNumber() @Min(0) @Max(1) share?: number;
  @Expose() @IsInt() @Min(0) views?: number;
  @Expose() @IsInt() @Min(0) @Max(9) @Transform(() => 'many') told?: number;
}

class Customer {
  @Expose() name?: string;
  @Expose() @Type(() => Order) orders?: Order[];
}

function place(property: string): Class {
  return class Place {
    static {
      Reflect.defineMetadata('design:type', String, this.prototype, property);
      Expose()(this.prototype, property);
    }
  };
}

const CUSTOMER = {
  type: ['object', 'null'],
  properties: {
    name: { type: ['string', 'null'] },
    orders: { type: ['object', 'array', 'null'], items: { $ref: '#/$defs/Order' } },
  },
  additionalProperties: false,
};

describe('an output schema', () => {
  it('describes what the model sees, and nothing else', () => {
    expect(outputSchema({ type: Order, list: false, nullable: false })).toMatchObject({
      type: 'object',
      properties: {
        number: { type: ['string', 'null'] },
        placed_at: { type: ['string', 'null'], format: 'date-time' },
        isPaid: { type: ['boolean', 'null'] },
        status: { type: ['string', 'null'] },
        priority: { type: ['number', 'null'] },
        total: { $ref: '#/$defs/Money' },
        size: { type: ['string', 'null'] },
        customer: { type: ['object', 'array', 'null'], items: { $ref: '#/$defs/Customer' } },
        history: {
          type: ['string', 'object', 'array', 'null'],
          format: 'date-time',
          items: { type: ['string', 'null'], format: 'date-time' },
        },
        tags: {},
        anything: {},
        nullable: {},
        parent: {},
        parts: {},
      },
      additionalProperties: false,
      $defs: {
        Money: {
          type: ['object', 'null'],
          properties: {
            amount: { type: ['number', 'null'] },
            currency: { type: ['string', 'null'] },
          },
          additionalProperties: false,
        },
        Customer: CUSTOMER,
        Order: { type: ['object', 'null'] },
      },
    });
    const text = JSON.stringify(outputSchema({ type: Order, list: false, nullable: false }));
    expect(text).not.toMatch(/color|secret|anyOf|oneOf/);
    expect(text).toBe(JSON.stringify(outputSchema({ type: Order, list: false, nullable: false })));
  });

  it('says the range of numbers whose class gives both bounds', () => {
    const { properties } = outputSchema({ type: Rating, list: false, nullable: false });
    expect(properties).toEqual({
      stars: { type: ['number', 'null'], 'x-toolloop-range': [1, 5] },
      share: { type: ['number', 'null'], 'x-toolloop-range': [0, 1] },
      views: { type: ['number', 'null'] },
      told: {},
    });
  });

  it('says list and null where the declaration does', () => {
    const money = {
      properties: { amount: { type: ['number', 'null'] }, currency: { type: ['string', 'null'] } },
      additionalProperties: false,
    };
    const items = { ...money, type: ['object', 'null'] };
    expect(outputSchema({ type: Money, list: false, nullable: true })).toEqual({
      ...money,
      type: ['object', 'null'],
    });
    expect(outputSchema({ type: Money, list: true, nullable: false })).toEqual({
      type: 'array',
      items,
    });
    expect(outputSchema({ type: Money, list: true, nullable: true })).toEqual({
      type: ['array', 'null'],
      items,
    });
  });

  it('keeps classes of the same name apart', () => {
    class Route {
      @Expose() @Type(() => places[0]) from?: unknown;
      @Expose() @Type(() => places[1]) to?: unknown;
      @Expose() @Type(() => places[0]) via?: unknown;
    }
    const places: [Class, Class] = [place('street'), place('port')];
    expect(outputSchema({ type: Route, list: false, nullable: false })).toMatchObject({
      properties: {
        from: { items: { $ref: '#/$defs/Place' } },
        to: { items: { $ref: '#/$defs/Place_2' } },
        via: { items: { $ref: '#/$defs/Place' } },
      },
      $defs: { Place: { properties: { street: {} } }, Place_2: { properties: { port: {} } } },
    });
  });
});

describe('an output schema from two compilers', () => {
  class Self {
    @Expose() value?: unknown;
  }

  /** The schema of a property, given what the compiler recorded as its type. */
  function schemaFrom(designType: unknown, ...decorators: PropertyDecorator[]): unknown {
    class Holder {
      declare value: unknown;
    }
    Reflect.defineMetadata(
      'design:type',
      designType === Self ? Holder : designType,
      Holder.prototype,
      'value',
    );
    for (const decorate of [Expose(), ...decorators]) decorate(Holder.prototype, 'value');
    const { properties, $defs } = outputSchema({ type: Holder, list: false, nullable: false });
    return { properties, $defs };
  }

  it.each([
    ['a string enum', String, Status],
    ['a numeric enum', Number, Priority],
    ['an enum of both', Object, { A: 'a', B: 1, 1: 'B' }],
    ['a readonly array', Array, Object],
    ['a property of its own class', Self, Object],
    ['an untyped getter', Object, undefined],
    ['a class imported as a type', Function, Object],
  ])('is the same for %s', (_, tsc, swc) => {
    expect(schemaFrom(tsc)).toEqual(schemaFrom(swc));
  });

  it.each([
    ['an alias of literals', String, Object, Type(() => String)],
    ['an alias of a class', Money, Object, Type(() => Money)],
    ['a readonly array of dates', Array, Object, Type(() => Date)],
    ['a readonly array of a class', Array, Object, Type(() => Money)],
  ])('is the same for %s with @Type()', (_, tsc, swc, decorator) => {
    expect(schemaFrom(tsc, decorator)).toEqual(schemaFrom(swc, decorator));
    expect(schemaFrom(tsc, decorator)).not.toEqual({ properties: { value: {} } });
  });
});

const scalar = fc.oneof(
  fc.constantFrom(undefined, null, '12.5', '2026-01-02', '0', 1, 0, true),
  fc.string(),
  fc.double(),
  fc.bigInt(),
  fc.date({ noInvalidDate: false }),
);
const anything = fc.anything({
  withBigInt: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withNullPrototype: true,
  withSparseArray: true,
});

function instance(
  type: Class<object>,
  fields: Record<string, fc.Arbitrary<unknown>>,
): fc.Arbitrary<object> {
  return fc.record(fields, { requiredKeys: [] }).map((record) => Object.assign(new type(), record));
}

/** One, a list, a Set or a Map. */
function many(one: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const list = fc.array(one, { maxLength: 3 });
  const map = fc
    .dictionary(fc.string(), one, { maxKeys: 2 })
    .map((record) => new Map(Object.entries(record)));
  return fc.oneof(
    { depthSize: 'small' },
    one,
    list,
    list.map((items) => new Set(items)),
    map,
  );
}

/** What is declared, and now and then something else. */
function mostly(declared: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 30, arbitrary: declared },
    { weight: 3, arbitrary: scalar },
    anything,
    money,
  );
}

const date = fc.date({
  min: new Date('0000-01-01T00:00:00Z'),
  max: new Date('9999-12-31T00:00:00Z'),
});
const money = instance(Money, { amount: fc.double(), currency: fc.string() });
const { order } = fc.letrec<{ order: object; customer: object }>((tie) => ({
  order: instance(Order, {
    number: mostly(fc.string()),
    placedAt: mostly(date),
    isPaid: mostly(fc.boolean()),
    status: mostly(fc.constantFrom('open', 'paid')),
    priority: mostly(fc.constantFrom(0, 1)),
    size: mostly(fc.bigInt()),
    total: mostly(money),
    customer: mostly(many(fc.oneof({ depthSize: 'small' }, fc.constant(null), tie('customer')))),
    history: mostly(many(date)),
    tags: anything,
    anything,
    nullable: scalar,
    parts: mostly(many(money)),
  }),
  customer: instance(Customer, {
    name: mostly(fc.string()),
    orders: mostly(many(fc.oneof({ depthSize: 'small' }, fc.constant(null), tie('order')))),
  }),
}));

describe('what a projection for the model returns', () => {
  const ajv = addFormats.default(new Ajv({ allowUnionTypes: true }));

  it.each<[string, boolean, fc.Arbitrary<unknown>]>([
    ['one', false, order],
    ['a list', true, fc.array(order, { maxLength: 3 })],
  ])('always fits the schema: %s', (_, list, results) => {
    const output = { type: Order, list, nullable: false };
    const validate = ajv.compile(outputSchema(output));
    const projection = new ProjectionCompiler().compile(output);
    let projected = 0;
    fc.assert(
      fc.property(results, (result) => {
        const json = projectionOf(projection, result);
        if (json === undefined) return;
        projected += 1;
        validate(json);
        expect(validate.errors).toBeNull();
        expect(JSON.stringify(json) === JSON.stringify(JSON.parse(JSON.stringify(json)))).toBe(
          true,
        );
      }),
      { numRuns: cases(1000) },
    );
    expect(projected).toBeGreaterThan(cases(40)); // about a third of them are
  });
});

/** Undefined where it is refused. */
function projectionOf(projector: ResultProjector, result: unknown): JsonValue | undefined {
  try {
    return projector.project(result, 'model');
  } catch (error) {
    if (error instanceof ProjectionError) return undefined;
    throw error;
  }
}
