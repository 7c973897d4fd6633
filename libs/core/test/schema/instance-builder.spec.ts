import { describe, expect, it } from '@jest/globals';
import { Exclude, Expose, plainToInstance, Transform, Type } from 'class-transformer';
import {
  IsArray,
  IsBoolean,
  IsDate,
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  ValidateNested,
} from 'class-validator';
import * as fc from 'fast-check';
import { instanceBuilder } from '../../src/schema/instance-builder.js';

class Line {
  @IsString() sku!: string;
  @IsInt() @Type(() => Number) quantity = 1;
  @IsOptional() @IsDate() @Type(() => Date) due?: Date | null;
}

class Order {
  @IsString() name!: string;
  @IsBoolean() @Expose() urgent = false;
  @IsOptional() @IsString() @Expose({ groups: ['model'] }) note?: string | null;
  @IsOptional() @IsString() @Exclude({ toPlainOnly: true }) secret?: string;
  @IsOptional() @ValidateNested() @Type(() => Line) first?: Line | null;
  @IsArray() @ValidateNested({ each: true }) @Type(() => Line) lines: Line[] = [];
  @IsArray() @IsArray({ each: true }) @Type(() => Line) grid: Line[][] = [];
  @IsOptional() @ValidateNested() @Type(() => Order) next?: Order;
  @IsOptional() @IsObject() filter?: object;
  private readonly cache = new Map<string, string>();

  get size(): number {
    return this.lines.length + this.cache.size;
  }
}

const GROUPS = {
  groups: ['model', 'ui', 'audit'],
  exposeDefaultValues: true,
  exposeUnsetFields: false,
};

const key = fc.string({ minLength: 1 }).filter((name) => !(name in Object.prototype));
const line = fc.record(
  {
    sku: fc.string(),
    quantity: fc.integer(),
    due: fc.option(fc.date({ noInvalidDate: true }).map((date) => date.toISOString())),
  },
  { requiredKeys: ['sku'] },
);
const order = fc.record(
  {
    name: fc.string(),
    urgent: fc.boolean(),
    note: fc.option(fc.string()),
    secret: fc.string(),
    first: fc.option(line),
    lines: fc.array(line, { maxLength: 3 }),
    grid: fc.array(fc.array(line, { maxLength: 2 }), { maxLength: 2 }),
    next: fc.record(
      { name: fc.string(), lines: fc.array(line, { maxLength: 1 }) },
      { requiredKeys: [] },
    ),
    filter: fc.dictionary(key, fc.oneof(fc.string(), fc.dictionary(key, fc.array(fc.integer())))),
  },
  { requiredKeys: [] },
);

describe('instanceBuilder', () => {
  it('makes what plainToInstance makes', () => {
    const build = instanceBuilder(Order);
    fc.assert(
      fc.property(order, (args) => {
        const plain = JSON.parse(JSON.stringify(args)) as object;
        const expected = plainToInstance(Order, plain, GROUPS);
        const built = build(plain);
        expect(built).toStrictEqual(expected);
        expect(JSON.stringify(built)).toBe(JSON.stringify(expected));
      }),
    );
  });

  it('shares nothing with the JSON', () => {
    const args = { name: 'a', filter: { list: [{ open: true }] } };
    const built = instanceBuilder(Order)(args);
    expect(built).toHaveProperty('filter', args.filter);
    expect(Reflect.get(built as object, 'filter')).not.toBe(args.filter);
  });

  it('gives each instance its own initial values', () => {
    const build = instanceBuilder(Order);
    expect(Reflect.get(build({}) as object, 'lines')).not.toBe(
      Reflect.get(build({}) as object, 'lines'),
    );
  });

  it('leaves a DTO with a @Transform(), at any depth, to class-transformer', () => {
    class Trimmed {
      @IsString() @Transform(({ value }: { value: string }) => value.trim()) name!: string;
    }
    class Outer {
      @ValidateNested() @Type(() => Trimmed) inner!: Trimmed;
      @IsObject() filter!: object;
    }
    const built = instanceBuilder(Outer)({
      inner: { name: ' a ' },
      filter: JSON.parse('{ "constructor": "Buffer", "a": 1 }') as object,
    });
    expect(built).toBeInstanceOf(Outer);
    expect(built).toEqual({ inner: { name: 'a' }, filter: { a: 1 } });
  });

  it('takes over nothing that was not declared', () => {
    const built = instanceBuilder(Line)(
      JSON.parse(
        '{ "sku": "a", "isAdmin": true, "__proto__": { "isAdmin": true }, "constructor": 1 }',
      ),
    );
    expect(built).toEqual({ sku: 'a', quantity: 1 });
    expect(built).not.toHaveProperty('isAdmin');
  });
});
