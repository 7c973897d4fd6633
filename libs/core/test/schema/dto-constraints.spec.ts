import { describe, expect, it } from '@jest/globals';
import type { Type as Class } from '@nestjs/common';
import { Type } from 'class-transformer';
import * as cv from 'class-validator';
import type { JSONSchema7 } from 'json-schema';
import { ToolField } from '../../src/tools/decorators/tool-field.decorator.js';
import { constraintSchema } from '../../src/schema/class-validator-schemas.js';
import { dtoSchema, type DtoSchema } from '../../src/schema/dto-schema.js';

enum Status {
  Open = 'open',
  Closed = 'closed',
}

const NULLABLE = ToolField({ nullable: true });

enum Level {
  Low,
  High = 5,
}

@cv.ValidatorConstraint()
class Odd {
  validate(value: unknown): boolean {
    return Number(value) % 2 === 1;
  }
}

class Forgotten {
  validate(): boolean {
    return false;
  }
}

/** A DTO with one property, `value`, under these decorators; without a design type. */
function schemaWith(...decorators: PropertyDecorator[]): DtoSchema {
  const dto = class Dto {
    value: unknown;
  };
  for (const decorate of decorators) decorate(dto.prototype, 'value');
  return dtoSchema(dto);
}

const valueOf = ({ schema }: DtoSchema): unknown => schema.properties?.['value'];
const finding = (...decorators: PropertyDecorator[]): string[] =>
  schemaWith(...decorators).findings.map(({ path, problem }) => `${path} ${problem}`);

const uuid = (version: string): string =>
  `^(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-${version}[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$`;

describe('constraints a schema says in full', () => {
  it.each<[string, PropertyDecorator[], JSONSchema7]>([
    ['IsString', [cv.IsString()], { type: 'string' }],
    ['IsBoolean', [cv.IsBoolean()], { type: 'boolean' }],
    ['IsNumber', [cv.IsNumber()], { type: 'number' }],
    ['IsInt', [cv.IsInt()], { type: 'integer' }],
    ['IsInt and IsNumber', [cv.IsInt(), cv.IsNumber()], { type: 'integer' }],
    ['Min', [cv.Min(2)], { type: 'number', minimum: 2 }],
    ['Max', [cv.Max(9)], { type: 'number', maximum: 9 }],
    [
      'the tighter of two bounds',
      [cv.Min(2), cv.Min(3), cv.Max(9), cv.Max(8)],
      { type: 'number', minimum: 3, maximum: 8 },
    ],
    ['IsPositive', [cv.IsPositive(), cv.IsInt()], { type: 'integer', exclusiveMinimum: 0 }],
    ['IsNegative', [cv.IsNegative()], { type: 'number', exclusiveMaximum: 0 }],
    [
      'MinLength and MaxLength',
      [cv.MinLength(2), cv.MaxLength(4)],
      { type: 'string', minLength: 2, maxLength: 4 },
    ],
    ['Length', [cv.Length(2, 4)], { type: 'string', minLength: 2, maxLength: 4 }],
    ['Length without an end', [cv.Length(2)], { type: 'string', minLength: 2 }],
    ['Length without a beginning', [cv.Length(0, 4)], { type: 'string', maxLength: 4 }],
    ['IsNotEmpty on text', [cv.IsString(), cv.IsNotEmpty()], { type: 'string', minLength: 1 }],
    ['IsNotEmpty on a number', [cv.IsInt(), cv.IsNotEmpty()], { type: 'integer' }],
    ['IsDefined', [cv.IsInt(), cv.IsDefined()], { type: 'integer' }],
    ['Matches', [cv.Matches(/^[a-z]+$/)], { type: 'string', pattern: '^[a-z]+$' }],
    [
      'Matches with g, which changes nothing',
      [cv.Matches(/^[a-z]+$/g)],
      { type: 'string', pattern: '^[a-z]+$' },
    ],
    [
      'Matches with u where it is needed',
      [cv.Matches(/^\p{L}+$/u)],
      { type: 'string', pattern: String.raw`^\p{L}+$` },
    ],
    ['Matches by text', [cv.Matches('^a' as never)], { type: 'string', pattern: '^a' }],
    ['IsEnum of text', [cv.IsEnum(Status)], { type: 'string', enum: ['open', 'closed'] }],
    [
      'IsEnum of numbers',
      [cv.IsEnum(Level)],
      { type: 'number', enum: [0, 5], description: '0 = Low, 5 = High.' },
    ],
    ['IsEnum of a list', [cv.IsEnum(['a', 'b'])], { type: 'string', enum: ['a', 'b'] }],
    [
      'IsInt and IsEnum',
      [cv.IsInt(), cv.IsEnum(Level)],
      { type: 'integer', enum: [0, 5], description: '0 = Low, 5 = High.' },
    ],
    ['IsIn', [cv.IsIn(['a', 'b'])], { type: 'string', enum: ['a', 'b'] }],
    [
      'IsIn of several types',
      [cv.IsIn(['a', 1, true, null])],
      { type: ['string', 'number', 'boolean', 'null'], enum: ['a', 1, true, null] },
    ],
    ['IsString and IsIn', [cv.IsString(), cv.IsIn(['a', 1])], { type: 'string', enum: ['a'] }],
    ['two lists', [cv.IsIn(['a', 'b']), cv.IsIn(['b', 'c'])], { type: 'string', enum: ['b'] }],
    ['Equals', [cv.Equals('a')], { type: 'string', enum: ['a'] }],
    ['IsAlpha', [cv.IsAlpha()], { type: 'string', pattern: '^[A-Za-z]+$' }],
    ['IsAlphanumeric', [cv.IsAlphanumeric()], { type: 'string', pattern: '^[0-9A-Za-z]+$' }],
    ['IsAscii', [cv.IsAscii()], { type: 'string', pattern: String.raw`^[\x00-\x7F]+$` }],
    [
      'IsHexadecimal',
      [cv.IsHexadecimal()],
      { type: 'string', pattern: '^(0[xXhH])?[0-9a-fA-F]+$' },
    ],
    [
      'IsNumberString',
      [cv.IsNumberString()],
      { type: 'string', pattern: '^[+-]?([0-9]*[.])?[0-9]+$' },
    ],
    [
      'IsBooleanString',
      [cv.IsBooleanString()],
      { type: 'string', enum: ['true', 'false', '1', '0'] },
    ],
    [
      'IsMilitaryTime',
      [cv.IsMilitaryTime()],
      { type: 'string', pattern: String.raw`^([01]\d|2[0-3]):?([0-5]\d)$` },
    ],
    [
      'IsMongoId',
      [cv.IsMongoId()],
      { type: 'string', pattern: '^([0-9a-fA-F]{24}|0[xXhH][0-9a-fA-F]{22})$' },
    ],
    [
      'IsUUID of a version',
      [cv.IsUUID('4')],
      { type: 'string', format: 'uuid', pattern: uuid('4') },
    ],
    ['IsIP of version 4', [cv.IsIP('4')], { type: 'string', format: 'ipv4' }],
    ['Contains', [cv.Contains('a.b')], { type: 'string', pattern: String.raw`a\.b` }],
    [
      'IsArray of text',
      [cv.IsArray(), cv.IsString({ each: true })],
      { type: 'array', items: { type: 'string' } },
    ],
    [
      'each without IsArray',
      [cv.IsInt({ each: true }), cv.Max(9, { each: true })],
      { type: 'array', items: { type: 'integer', maximum: 9 } },
    ],
    [
      'ArrayMinSize and ArrayMaxSize',
      [cv.ArrayMinSize(1), cv.ArrayMaxSize(3), cv.IsIn(['a'], { each: true })],
      { type: 'array', minItems: 1, maxItems: 3, items: { type: 'string', enum: ['a'] } },
    ],
    [
      'ArrayNotEmpty',
      [cv.ArrayNotEmpty(), cv.IsString({ each: true })],
      { type: 'array', minItems: 1, items: { type: 'string' } },
    ],
    [
      'IsNotEmpty on a list',
      [cv.IsNotEmpty(), cv.IsString({ each: true })],
      { type: 'array', items: { type: 'string' } },
    ],
    [
      'a list of lists',
      [
        cv.IsArray(),
        cv.IsArray({ each: true }),
        cv.ArrayMaxSize(2, { each: true }),
        Type(() => Number),
      ],
      { type: 'array', items: { type: 'array', maxItems: 2, items: { type: 'number' } } },
    ],
    ['IsDate', [cv.IsDate(), Type(() => Date)], { type: 'string', format: 'date-time' }],
    ['Type of a scalar', [cv.IsNotEmpty(), Type(() => Number)], { type: 'number' }],
    ['IsObject', [cv.IsObject()], { type: 'object', additionalProperties: true }],
    ['IsOptional', [cv.IsString(), cv.IsOptional()], { type: 'string' }],
    [
      'IsOptional with a list of values that has null',
      [cv.IsIn(['a', null]), cv.IsOptional()],
      { type: ['string', 'null'], enum: ['a', null] },
    ],
    ['nullable', [cv.IsString(), NULLABLE], { type: ['string', 'null'] }],
    [
      'nullable and IsOptional',
      [cv.IsString(), cv.IsOptional(), NULLABLE],
      { type: ['string', 'null'] },
    ],
    [
      'nullable with an enum',
      [cv.IsIn(['a']), NULLABLE],
      { type: ['string', 'null'], enum: ['a', null] },
    ],
    [
      'nullable with a list',
      [cv.IsString({ each: true }), NULLABLE],
      { type: ['array', 'null'], items: { type: 'string' } },
    ],
    [
      'nullable with a date',
      [cv.IsDate(), Type(() => Date), NULLABLE],
      { type: ['string', 'null'], format: 'date-time' },
    ],
  ])('%s', (_, decorators, expected) => {
    const compiled = schemaWith(...decorators);
    expect(compiled.findings).toEqual([]);
    expect(valueOf(compiled)).toEqual(expected);
    expect(compiled.needsClassValidator).toBe(false);
  });
});

describe('constraints that class-validator has to check too', () => {
  it.each<[string, PropertyDecorator[], JSONSchema7]>([
    ['IsEmail', [cv.IsEmail()], { type: 'string', description: 'An email address.' }],
    [
      'IsUrl',
      [cv.IsUrl()],
      { type: 'string', description: 'A URL such as https://example.com/path.' },
    ],
    [
      'IsDateString',
      [cv.IsDateString()],
      {
        type: 'string',
        description: 'An ISO 8601 date, or date and time: 2026-01-31 or 2026-01-31T09:30:00Z.',
      },
    ],
    ['IsIP', [cv.IsIP()], { type: 'string', description: 'An IP address.' }],
    [
      'IsUUID of any of several',
      [cv.IsUUID(['4', '7'] as never)],
      { type: 'string', description: 'A UUID.' },
    ],
    [
      'IsNumberString with options',
      [cv.IsNumberString({ no_symbols: true })],
      { type: 'string', description: 'A number, as text.' },
    ],
    [
      'IsAlpha in a locale',
      [cv.IsAlpha('de-DE')],
      { type: 'string', description: 'Letters only.' },
    ],
    [
      'Matches with a flag',
      [cv.Matches(/^[a-z]+$/i)],
      { type: 'string', description: 'Matches /^[a-z]+$/i.' },
    ],
    [
      'Matches with u where it is not needed',
      [cv.Matches(/^.$/u)],
      { type: 'string', description: 'Matches /^.$/u.' },
    ],
    [
      'Matches by text, with flags',
      [cv.Matches('^a' as never, 'i')],
      { type: 'string', description: 'Matches /^a/i.' },
    ],
    [
      'a second pattern',
      [cv.IsAlpha(), cv.Matches(/^a/)],
      { type: 'string', pattern: '^[A-Za-z]+$', description: 'Also matches: ^a.' },
    ],
    ['IsDivisibleBy', [cv.IsDivisibleBy(5)], { type: 'number', multipleOf: 5 }],
    ['IsNumber with decimals', [cv.IsNumber({ maxDecimalPlaces: 2 })], { type: 'number' }],
    ['IsLatitude', [cv.IsLatitude()], { type: 'number', minimum: -90, maximum: 90 }],
    [
      'ArrayUnique',
      [cv.ArrayUnique(), cv.IsInt({ each: true })],
      { type: 'array', uniqueItems: true, items: { type: 'integer' } },
    ],
    [
      'ArrayContains',
      [cv.ArrayContains(['a']), cv.IsString({ each: true })],
      { type: 'array', items: { type: 'string' }, description: 'Contains: a.' },
    ],
    [
      'MinDate',
      [cv.IsDate(), cv.MinDate(new Date(0)), Type(() => Date)],
      { type: 'string', format: 'date-time', description: 'Not before 1970-01-01T00:00:00.000Z.' },
    ],
    ['IsNotIn', [cv.IsString(), cv.IsNotIn(['a'])], { type: 'string', description: 'None of: a.' }],
    ['NotEquals', [cv.IsInt(), cv.NotEquals(3)], { type: 'integer', description: 'Not 3.' }],
    [
      'IsNotEmptyObject',
      [cv.IsNotEmptyObject()],
      { type: 'object', minProperties: 1, additionalProperties: true },
    ],
    [
      'groups',
      [cv.IsString(), cv.MinLength(3, { groups: ['create'] })],
      { type: 'string', minLength: 3 },
    ],
    [
      'a condition of one decorator',
      [cv.IsString(), cv.MinLength(3, { validateIf: () => false })],
      { type: 'string', description: 'At least 3 characters.' },
    ],
    [
      'ValidateIf',
      [cv.ValidateIf(() => false), cv.IsString(), cv.MinLength(3)],
      { type: ['string', 'null'], description: 'At least 3 characters.' },
    ],
    [
      'ValidateIf with an enum',
      [cv.ValidateIf(() => false), cv.IsIn(['a'])],
      { type: ['string', 'null'], description: 'One of: a.' },
    ],
    ['a validator of the application', [cv.IsString(), cv.Validate(Odd)], { type: 'string' }],
    [
      'a decorator of the application',
      [cv.IsString(), cv.ValidateBy({ name: 'isOdd', validator: { validate: () => true } })],
      { type: 'string' },
    ],
    ['a length that is none', [cv.MinLength(1.5)], { type: 'string' }],
  ])('%s', (_, decorators, expected) => {
    const compiled = schemaWith(...decorators);
    expect(compiled.findings).toEqual([]);
    expect(valueOf(compiled)).toEqual(expected);
    expect(compiled.needsClassValidator).toBe(true);
  });

  it('knows the type of every decorator class-validator ships', () => {
    const names = Object.entries(cv).flatMap(([key, value]) =>
      /^[A-Z][A-Z0-9_]+$/.test(key) && typeof value === 'string' ? [value] : [],
    );
    const untyped = names.filter((name) => constraintSchema(name, [undefined]).types === undefined);
    expect(names.length).toBeGreaterThan(90);
    expect(untyped.toSorted()).toEqual(
      [
        'isDefined',
        'isEmpty',
        'isEnum',
        'isInstance',
        'isNotEmpty',
        'isNotIn',
        'isOptional',
        'notEquals',
      ].toSorted(),
    );
  });
});

describe('declarations that cannot work', () => {
  it.each<[string, PropertyDecorator[], string]>([
    ['nothing tells the type', [cv.IsNotEmpty()], 'Dto.value has no decorator that gives its type'],
    [
      'optional, and nothing tells the type',
      [cv.IsOptional()],
      'Dto.value has no decorator that gives its type',
    ],
    [
      'a list of something',
      [cv.IsArray()],
      'Dto.value is an array, but the type of its items is unknown',
    ],
    [
      'a date that stays text',
      [cv.IsDate()],
      'Dto.value is text in JSON, which @IsDate() never accepts',
    ],
    [
      'text that becomes a date',
      [cv.IsDateString(), Type(() => Date)],
      'Dto.value is turned into a Date by @Type(), but its validators expect something else',
    ],
    [
      'a nested class that is not named',
      [cv.ValidateNested()],
      'Dto.value is nested, but its class is unknown',
    ],
    [
      'nested ones that are not named',
      [cv.ValidateNested({ each: true })],
      'Dto.value is nested, but its class is unknown',
    ],
    [
      'two types',
      [cv.IsString(), cv.IsInt()],
      'Dto.value has decorators that contradict each other: no value satisfies all',
    ],
    [
      'text and a list',
      [cv.IsString(), cv.IsInt({ each: true })],
      'Dto.value has decorators that contradict each other (string): no value satisfies all',
    ],
    [
      'text made a number',
      [cv.IsString(), Type(() => Number)],
      'Dto.value has decorators that contradict each other (string): no value satisfies all',
    ],
    ['no value left', [cv.IsIn(['a']), cv.IsIn(['b'])], 'Dto.value allows no value at all'],
    [
      'no values given',
      [cv.IsString(), cv.IsIn([1])],
      'Dto.value has decorators that contradict each other: no value satisfies all',
    ],
    [
      'a Type that names nothing',
      [cv.IsString(), Type(() => undefined as never)],
      'Dto.value has a @Type() that names no class',
    ],
    ['a Map', [cv.IsDefined(), Type(() => Map)], 'Dto.value has a @Type() that names no class'],
    [
      'a validator class-validator does not know',
      [cv.IsString(), cv.Validate(Forgotten)],
      'Dto.value has a validator class that never runs',
    ],
    [
      'a promise',
      [cv.IsString(), cv.ValidatePromise()],
      'Dto.value is a promise, which JSON does not have',
    ],
    [
      'one of several classes',
      [
        cv.ValidateNested(),
        Type(() => Object, { discriminator: { property: 'kind', subTypes: [] } }),
      ],
      'Dto.value is one of several classes, which the supported subset of JSON Schema cannot express',
    ],
  ])('%s', (_, decorators, expected) => {
    expect(finding(...decorators)).toEqual([expected]);
  });

  it('finds a name that every object has', () => {
    const dto: Class = class Dto {
      value: unknown;
    };
    cv.IsString()(dto.prototype as object, 'constructor');
    expect(dtoSchema(dto).findings.map(({ path, problem }) => `${path} ${problem}`)).toEqual([
      'Dto.constructor has a name that every object has',
    ]);
  });

  it('says how to mend each', () => {
    expect(schemaWith(cv.IsDate()).findings).toEqual([
      {
        path: 'Dto.value',
        problem: 'is text in JSON, which @IsDate() never accepts',
        remedy: 'Add @Type(() => Date).',
      },
    ]);
  });
});
