import { describe, expect, it } from '@jest/globals';
import * as cv from 'class-validator';
import { dtoSchema } from '../../src/schema/dto-schema.js';

interface Dto {
  readonly value?: unknown;
  readonly kind?: string;
}

function schemaWith(...decorators: readonly PropertyDecorator[]) {
  class Input {
    value!: unknown;
  }
  for (const decorator of decorators) decorator(Input.prototype, 'value');
  const compiled = dtoSchema(Input);
  expect(compiled.findings).toEqual([]);
  return {
    value: compiled.schema.properties?.value,
    required: compiled.schema.required ?? [],
    isExact: !compiled.needsClassValidator,
  };
}

function isThere(dto: Dto): boolean {
  return dto.value !== undefined;
}

const isNoNull = (_dto: Dto, value: unknown): boolean => value !== null;

const BOUNDED = [cv.IsInt(), cv.Min(1), cv.Max(50)];
const BOUNDS = { type: 'integer', minimum: 1, maximum: 50 };

describe('bounds behind @ValidateIf()', () => {
  it.each<[string, (dto: Dto, value: unknown) => boolean]>([
    ['the property of the object', (dto) => dto.value !== undefined],
    ['the property by its name', (dto) => dto['value'] !== undefined],
    ['the value', (_dto, value) => value !== undefined],
    ['the value, which may be null too', (_dto, value) => value != null],
    ['the property, undefined or null', (dto) => dto.value !== undefined && dto.value !== null],
    ['the type of the value', (_dto, value) => typeof value !== 'undefined'],
    [
      'the property, in a function with a body',
      (dto) => {
        return dto.value !== undefined;
      },
    ],
    ['the property, in a function of the old form', isThere],
  ])('are in the schema where it asks only for %s', (_what, condition) => {
    expect(schemaWith(cv.ValidateIf(condition), ...BOUNDED)).toEqual({
      value: BOUNDS,
      required: [],
      isExact: true,
    });
  });

  it('are in the schema of a property that must be there and may be null', () => {
    const value = { ...BOUNDS, type: ['integer', 'null'] };
    expect(schemaWith(cv.ValidateIf(isNoNull), ...BOUNDED)).toEqual({
      value,
      required: ['value'],
      isExact: true,
    });
  });

  it.each<[string, (dto: Dto, value: unknown) => boolean]>([
    ['another property', (dto) => dto.kind === 'a'],
    ['another property, too', (dto) => dto.value !== undefined && dto.kind === 'a'],
    ['another property instead', (dto) => dto.kind !== undefined],
    ['any of two', (dto) => dto.value !== undefined || dto.kind === 'a'],
    ['the absence of it', (dto) => dto.value === undefined],
    ['its truth', (dto) => Boolean(dto.value)],
    ['nothing', () => true],
  ])('are in the description where it asks for %s', (_what, condition) => {
    expect(schemaWith(cv.ValidateIf(condition), ...BOUNDED)).toEqual({
      value: { type: ['integer', 'null'], description: 'At least 1. At most 50.' },
      required: [],
      isExact: false,
    });
  });

  it.each<[string, readonly PropertyDecorator[], string]>([
    ['a length', [cv.IsString(), cv.Length(2, 5)], 'At least 2 characters. At most 5 characters.'],
    ['a pattern', [cv.IsString(), cv.Matches(/^a+$/)], 'Matches /^a+$/.'],
    ['a sign', [cv.IsNumber(), cv.IsPositive()], 'More than 0.'],
    ['a negative sign', [cv.IsNumber(), cv.IsNegative()], 'Less than 0.'],
    ['a divisor', [cv.IsInt(), cv.IsDivisibleBy(5)], 'A multiple of 5.'],
    ['choices', [cv.IsIn(['a', 'b'])], 'One of: a, b.'],
    ['a UUID', [cv.IsUUID()], 'A UUID.'],
    ['an email address', [cv.IsEmail()], 'An email address.'],
    [
      'a number of items',
      [cv.IsArray(), cv.ArrayMinSize(1), cv.ArrayMaxSize(3), cv.IsString({ each: true })],
      'At least 1 items. At most 3 items.',
    ],
    [
      'items without repetition',
      [cv.IsArray(), cv.ArrayUnique(), cv.IsString({ each: true })],
      'No item twice.',
    ],
    [
      'an object with something in it',
      [cv.IsObject(), cv.IsNotEmptyObject()],
      'At least 1 properties.',
    ],
  ])('are told in words: %s', (_what, decorators, description) => {
    expect(
      schemaWith(
        cv.ValidateIf((dto: Dto) => dto.kind === 'a'),
        ...decorators,
      ).value,
    ).toMatchObject({ description });
  });

  it('are told for the items of a list, too', () => {
    const { value } = schemaWith(
      cv.ValidateIf(() => true),
      cv.IsArray(),
      cv.IsInt({ each: true }),
      cv.Min(1, { each: true }),
    );
    expect(value).toEqual({
      type: ['array', 'null'],
      items: { type: 'integer', description: 'At least 1.' },
    });
  });

  it('are told for the condition of one decorator', () => {
    const { value } = schemaWith(
      cv.IsInt(),
      cv.Min(3, { validateIf: (dto: Dto) => dto.kind === 'a' }),
    );
    expect(value).toEqual({ type: 'integer', description: 'At least 3.' });
  });
});
