import { describe, expect, it } from '@jest/globals';
import { Type } from 'class-transformer';
import {
  IsArray,
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  ValidateIf,
  ValidateNested,
} from 'class-validator';
import type { JSONSchema7 } from 'json-schema';
import { ToolField } from '../../src/tools/decorators/tool-field.decorator.js';
import type { JsonObject } from '@toolloop/core';
import { canonicalJson } from '../../src/schema/canonical-json.js';
import { dtoSchema } from '../../src/schema/dto-schema.js';
import { optionalNullRemoval } from '../../src/schema/optional-nulls.js';
import { parameterSchema } from '../../src/schema/parameter-schema.js';
import { SchemaValidators } from '../../src/schema/validators.js';

class Line {
  @IsString() sku!: string;
  @IsInt() quantity = 1;
}

class Order {
  @IsString() name!: string;
  @IsOptional() @IsString() note?: string;
  @IsOptional() @IsString() nothing: string | null = null;
  @ToolField({ nullable: true }) @IsOptional() @IsString() comment?: string | null;
  @ValidateIf((order: Order) => order.name === 'a') @IsString() reason?: string;
  @IsInt() limit = 10;
  @IsOptional() @ValidateNested() @Type(() => Line) first?: Line;
  @IsOptional() @IsArray() @ValidateNested({ each: true }) @Type(() => Line) lines?: Line[];
  @IsOptional()
  @IsArray()
  @IsArray({ each: true })
  @ValidateNested({ each: true })
  @Type(() => Line)
  grid?: Line[][];
  @IsOptional() @ValidateNested() @Type(() => Order) next?: Order;
  @IsOptional() @IsObject() filter?: object;
}

const order = optionalNullRemoval(dtoSchema(Order).schema);

const object = (properties: Record<string, JSONSchema7>, more: JSONSchema7 = {}): JSONSchema7 => ({
  type: 'object',
  properties,
  ...more,
});

describe('null for an optional argument of a DTO', () => {
  it.each(['note', 'nothing', 'limit', 'first', 'lines', 'grid', 'next', 'filter'])(
    'is the same as none: %s',
    (name) => {
      expect(order({ name: 'a', [name]: null })).toEqual({ name: 'a' });
    },
  );

  it.each(['comment', 'reason', 'name', 'unknown'])(
    'stays where null is a value, or a mistake: %s',
    (name) => {
      expect(order({ [name]: null })).toEqual({ [name]: null });
    },
  );

  it('is left out at every depth', () => {
    const line = { sku: 'a', quantity: null };
    const args = {
      name: 'a',
      first: line,
      lines: [line, line],
      grid: [[line]],
      next: { name: 'b', note: null, next: { name: null, lines: [line] } },
    };
    expect(order(args)).toEqual({
      name: 'a',
      first: { sku: 'a' },
      lines: [{ sku: 'a' }, { sku: 'a' }],
      grid: [[{ sku: 'a' }]],
      next: { name: 'b', next: { name: null, lines: [{ sku: 'a' }] } },
    });
  });

  it('is data within free-form objects, and in lists', () => {
    const args = { filter: { note: null, limit: null }, lines: [null] };
    expect(order(args)).toEqual(args);
  });

  it('makes way for the default, in the canonical JSON too', () => {
    const { schema } = dtoSchema(Order);
    const sent = order({ name: 'a', limit: null, first: { sku: 'a', quantity: null } });
    const bare = order({ name: 'a', first: { sku: 'a' } });
    for (const args of [sent, bare])
      expect(new SchemaValidators().validate(schema, args)).toEqual([]);
    expect(canonicalJson(sent)).toBe('{"first":{"quantity":1,"sku":"a"},"limit":10,"name":"a"}');
    expect(canonicalJson(bare)).toBe(canonicalJson(sent));
  });

  it('leaves the object of the caller as it was', () => {
    const args = Object.freeze({
      name: 'a',
      note: null,
      lines: Object.freeze([Object.freeze({ sku: 'a', quantity: null })]),
    });
    expect(order(args)).toEqual({ name: 'a', lines: [{ sku: 'a' }] });
    expect(args.lines[0]).toHaveProperty('quantity', null);
  });

  it('keeps names that every object has', () => {
    const args = JSON.parse(
      '{ "__proto__": null, "constructor": null, "first": { "__proto__": { "a": 1 } } }',
    ) as JsonObject;
    expect(JSON.stringify(order(args))).toBe(JSON.stringify(args));
  });

  it('does not overflow on arguments nested a hundred thousand deep', () => {
    let args: JsonObject = {};
    for (let depth = 0; depth < 100_000; depth += 1) args = { next: args };
    expect(order(args)).toHaveProperty('next');
  });
});

describe('null for an optional parameter', () => {
  it('is the same as none, unless it is nullable', () => {
    const { schema } = parameterSchema(
      [
        { kind: 'param', index: 0, name: 'query', options: { description: '' } },
        { kind: 'param', index: 1, name: 'limit', options: { description: '', default: 10 } },
        { kind: 'param', index: 2, name: 'page', options: { description: '', required: false } },
        {
          kind: 'param',
          index: 3,
          name: 'since',
          options: { description: '', required: false, nullable: true },
        },
        { kind: 'param', index: 4, name: 'until', options: { description: '', default: null } },
      ],
      [String, Number, Number, String, String],
    );
    expect(
      optionalNullRemoval(schema)({
        query: null,
        limit: null,
        page: null,
        since: null,
        until: null,
      }),
    ).toEqual({
      query: null,
      since: null,
      until: null,
    });
  });
});

describe('null under a schema from outside', () => {
  it.each<[JSONSchema7, boolean]>([
    [{ type: 'string' }, true],
    [{ type: ['string', 'null'] }, false],
    [{ type: ['string', 'null'], enum: ['a'] }, true],
    [{ enum: ['a', null] }, false],
    [{ enum: ['a'] }, true],
    [{ const: 'a' }, true],
    [{ const: null }, false],
    [{}, false],
    [{ $ref: '#/$defs/Text' }, true],
    [{ $ref: '#/$defs/TextOrNull' }, false],
    [{ $ref: '#/$defs/Alias' }, true],
    [{ $ref: '#/$defs/Loop' }, false],
    [{ $ref: '#/$defs/Missing' }, false],
  ])('is left out of %j: %s', (property, expected) => {
    const $defs: Record<string, JSONSchema7> = {
      Text: { type: 'string' },
      TextOrNull: { type: ['string', 'null'] },
      Alias: { $ref: '#/$defs/Text' },
      Loop: { $ref: '#/$defs/Loop' },
    };
    const args = optionalNullRemoval({ type: 'object', properties: { value: property }, $defs })({
      value: null,
    });
    expect(!Object.hasOwn(args, 'value')).toBe(expected);
  });

  it('is left out among properties without a name of their own', () => {
    const item = object({ note: { type: 'string' } });
    const remove = optionalNullRemoval(
      object({ known: { type: 'object' } }, { required: ['known'], additionalProperties: item }),
    );
    expect(remove({ known: { note: null }, other: { note: null } })).toEqual({
      known: { note: null },
      other: {},
    });
  });

  it('costs nothing where there is none to leave out', () => {
    const tree = object({ next: { $ref: '#/$defs/Node' } }, { required: ['next'] });
    const args = { next: { next: null } };
    expect(optionalNullRemoval({ ...tree, $defs: { Node: tree } })(args)).toBe(args);
    const list = { items: [{ a: 1 }] };
    const partly = object(
      {
        items: { type: 'array', items: object({ a: {} }, { required: ['a'] }) },
        note: { type: 'string' },
      },
      { required: ['items'] },
    );
    expect(optionalNullRemoval(partly)(list)['items']).toBe(list.items);
  });
});
