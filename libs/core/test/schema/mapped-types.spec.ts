import { describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { IntersectionType, OmitType, PartialType, PickType } from '@nestjs/mapped-types';
import { ToolField } from '@toolloop/core';
import { IsInt, IsOptional, IsString, Max } from 'class-validator';
import { dtoSchema } from '../../src/schema/dto-schema.js';
import { compileDtoInput } from '../../src/schema/tool-input.js';

class Order {
  @ToolField({ description: 'The number.', example: '2026-4' }) @IsString() number!: string;
  @ToolField({ description: 'How many.' }) @IsInt() @Max(9) amount: number = 1;
  @ToolField({ description: 'A word of thanks.', nullable: true }) @IsOptional() @IsString() note?:
    string | null;
  @ToolField({ description: 'No validator names its type.' }) gift!: boolean;
}

class Place {
  @ToolField({ description: 'The town.' }) @IsString() town!: string;
}

const NUMBER = { type: 'string', description: 'The number.', examples: ['2026-4'] };
const AMOUNT = { type: 'integer', maximum: 9, description: 'How many.', default: 1 };
const NOTE = { type: ['string', 'null'], description: 'A word of thanks.' };
const GIFT = { type: 'boolean', description: 'No validator names its type.' };
const TOWN = { type: 'string', description: 'The town.' };

class Changes extends PartialType(Order) {}
class Numbered extends PickType(Order, ['number', 'gift'] as const) {}
class Unnumbered extends OmitType(Order, ['number', 'gift'] as const) {}
class Delivery extends IntersectionType(
  Place,
  PartialType(PickType(Order, ['number', 'note'] as const)),
) {}
class Renamed extends PartialType(Order) {
  @ToolField({ description: 'Another number.' }) @IsString() override number!: string;
}

describe('a class that mapped types make of a DTO', () => {
  it.each<[string, Type, Record<string, object>, string[]]>([
    ['PartialType()', Changes, { number: NUMBER, amount: AMOUNT, note: NOTE, gift: GIFT }, []],
    ['PickType()', Numbered, { number: NUMBER, gift: GIFT }, ['number', 'gift']],
    ['OmitType()', Unnumbered, { amount: AMOUNT, note: NOTE }, []],
    ['IntersectionType()', Delivery, { town: TOWN, number: NUMBER, note: NOTE }, ['town']],
    [
      'PartialType() with a @ToolField() of its own',
      Renamed,
      { number: { type: 'string', description: 'Another number.' } },
      [],
    ],
  ])('keeps what @ToolField() says: %s', (_, type, properties, required) => {
    const { schema, findings } = dtoSchema(type);
    expect(findings).toEqual([]);
    expect(schema.properties).toMatchObject(properties);
    expect(Object.keys(schema.properties ?? {})).toEqual(
      expect.arrayContaining(Object.keys(properties)),
    );
    expect(schema.required ?? []).toEqual(required);
  });

  it('takes null where @ToolField() makes it a value, and drops it where the argument is only optional', async () => {
    const { input } = compileDtoInput({ at: 'Changes', reserved: [], type: Changes });
    const args = input.normalize({ number: null, note: null });
    expect(args).toEqual({ note: null });
    expect(await input.read(args)).toEqual({
      value: expect.objectContaining({ note: null, amount: 1 }),
    });
  });
});
