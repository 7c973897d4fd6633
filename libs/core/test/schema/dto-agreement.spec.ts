import { describe, expect, it } from '@jest/globals';
import { plainToInstance, Type } from 'class-transformer';
import * as cv from 'class-validator';
import * as fc from 'fast-check';
import type { JsonObject } from '@toolloop/core';
import { cases } from '../../../../test/cases.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import { dtoSchema } from '../../src/schema/dto-schema.js';
import { instanceBuilder } from '../../src/schema/instance-builder.js';
import { compileDtoInput } from '../../src/schema/tool-input.js';
import { Priority } from './priority.js';
import { SAMPLES } from './validator-samples.js';

/**
 * `@IsObject()` beside `@ValidateNested()`: without it class-validator takes a list where one is
 * meant, and the schema does not.
 */
class Line {
  @cv.IsString() @cv.Length(1, 3) sku!: string;
  @cv.IsInt() @cv.Min(1) @cv.Max(5) quantity = 1;
}

class Order {
  @cv.IsString() @cv.MinLength(2) @cv.MaxLength(4) name!: string;
  @cv.IsOptional() @cv.IsNumber() @cv.Min(-2) @cv.Max(2.5) discount?: number | null;
  @cv.IsInt() @cv.IsPositive() count = 3;
  @cv.IsBoolean() urgent!: boolean;
  @cv.IsEnum(Priority) priority!: Priority;
  @cv.IsOptional() @cv.IsIn(['a', 1, null]) kind?: unknown;
  @cv.IsNotEmpty() @cv.Matches(/^[ab]*$/) code!: string;
  @cv.IsUUID() id!: string;
  @cv.IsNumberString() amount!: string;
  @cv.IsArray()
  @cv.ArrayMinSize(1)
  @cv.ArrayMaxSize(2)
  @cv.IsString({ each: true })
  @cv.IsNotEmpty({ each: true })
  tags!: string[];
  @cv.IsObject() @cv.ValidateNested() @Type(() => Line) first!: Line;
  @cv.IsArray()
  @cv.IsObject({ each: true })
  @cv.ValidateNested({ each: true })
  @Type(() => Line)
  lines!: Line[];
}

const validators = new SchemaValidators();
const { input, findings } = compileDtoInput({ at: 'Order', type: Order, reserved: [] });

const copyOf = (args: object): JsonObject => JSON.parse(JSON.stringify(args)) as JsonObject;
const schemaAccepts = (args: object): boolean =>
  validators.validate(input.schema, input.normalize(copyOf(args))).length === 0;

/**
 * Null for an optional argument is the same as none. `kind` is not among them: its `@IsIn()` names
 * null.
 */
const OPTIONAL = new Set(['discount', 'count', 'quantity']);
const withoutOptionalNulls = (args: object): JsonObject =>
  JSON.parse(JSON.stringify(args), (key, value: unknown) =>
    value === null && OPTIONAL.has(key) ? undefined : value,
  ) as JsonObject;

const classValidatorAccepts = async (args: object): Promise<boolean> => {
  const built = plainToInstance(Order, withoutOptionalNulls(args), { exposeUnsetFields: false });
  return (await cv.validate(built, { whitelist: true, forbidNonWhitelisted: true })).length === 0;
};

/** Most often right, now and then on the edge, seldom anything at all. */
const mostly = (
  right: fc.Arbitrary<unknown>,
  edge: fc.Arbitrary<unknown> = right,
): fc.Arbitrary<unknown> =>
  fc.oneof(
    { weight: 50, arbitrary: right },
    { weight: 2, arbitrary: edge },
    {
      weight: 1,
      arbitrary: fc.oneof(fc.jsonValue({ maxDepth: 1 }), fc.constantFrom(0, '', null, [], {})),
    },
  );

/** A model often sends null for what it does not want to give. */
const optional = (given: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.option(given, { freq: 3 });

const strange = fc.string({
  unit: fc.constantFrom('a', 'b', '\u{1F600}', '\uFE0F', '❤'),
  maxLength: 6,
});
const text = fc.oneof(fc.string({ maxLength: 6 }), strange);
const line = fc.record(
  {
    sku: mostly(fc.string({ minLength: 1, maxLength: 3 }), text),
    quantity: mostly(optional(fc.integer({ min: 1, max: 5 })), fc.double()),
  },
  { requiredKeys: ['sku'] },
);
const order = fc.record(
  {
    name: mostly(fc.string({ minLength: 2, maxLength: 4 }), strange),
    discount: mostly(
      optional(fc.double({ min: -2, max: 2.5, noNaN: true })),
      fc.integer({ min: -4, max: 4 }),
    ),
    count: mostly(optional(fc.integer({ min: 1, max: 9 })), fc.integer({ min: -1, max: 1 })),
    urgent: mostly(fc.boolean()),
    priority: mostly(fc.constantFrom('low', 'high')),
    kind: mostly(fc.constantFrom('a', 1, null), fc.constant('b')),
    code: mostly(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 3 }), text),
    id: mostly(fc.uuid()),
    amount: mostly(fc.integer().map(String), fc.double({ noNaN: true }).map(String)),
    tags: mostly(
      fc.array(fc.string({ minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 2 }),
      fc.array(text, { maxLength: 3 }),
    ),
    first: mostly(line),
    lines: mostly(fc.array(mostly(line), { maxLength: 2 })),
  },
  {
    requiredKeys: ['name', 'urgent', 'priority', 'code', 'id', 'amount', 'tags', 'first', 'lines'],
  },
);

const GOOD = {
  name: 'abc',
  urgent: true,
  priority: 'low',
  code: 'ab',
  id: '123e4567-e89b-42d3-a456-426614174000',
  amount: '1.5',
  tags: ['x'],
  first: { sku: 'a' },
  lines: [],
};

describe('a DTO whose schema says all', () => {
  it('needs no class-validator', () => {
    expect(findings).toEqual([]);
    expect(dtoSchema(Order).needsClassValidator).toBe(false);
    expect(schemaAccepts(GOOD)).toBe(true);
  });

  it('is judged alike by Ajv and by class-validator, whatever the arguments', async () => {
    const verdicts = new Set<boolean>();
    await fc.assert(
      fc.asyncProperty(order, async (args) => {
        const accepted = schemaAccepts(args);
        verdicts.add(accepted);
        expect(accepted).toBe(await classValidatorAccepts(args));
      }),
      { numRuns: cases(500) },
    );
    expect(verdicts.size).toBe(2);
  });

  it('gives the tool the defaults, where null was sent', () => {
    const args = input.normalize({
      ...GOOD,
      discount: null,
      count: null,
      kind: null,
      lines: [{ sku: 'a', quantity: null }],
    });
    expect(validators.validate(input.schema, args)).toEqual([]);
    expect(args).toEqual({
      ...GOOD,
      count: 3,
      kind: null,
      first: { sku: 'a', quantity: 1 },
      lines: [{ sku: 'a', quantity: 1 }],
    });
    expect(instanceBuilder(Order)(args)).toMatchObject({
      count: 3,
      kind: null,
      lines: [{ quantity: 1 }],
    });
    expect(GOOD.first).toEqual({ sku: 'a' });
  });

  it('is judged alike with one property wrong', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...Object.keys(GOOD), 'discount', 'count', 'kind', 'other'),
        fc.oneof(fc.jsonValue(), text),
        async (key, value) => {
          const args = { ...GOOD, [key]: value };
          expect(schemaAccepts(args)).toBe(await classValidatorAccepts(args));
        },
      ),
      { numRuns: cases(1000) },
    );
  });
});

type Named = readonly [string, PropertyDecorator];

const decorators: readonly Named[] = [
  ...Object.entries(cv).flatMap(([name, decorator]): Named[] => {
    const takesNothing =
      /^Is[A-Z]/.test(name) &&
      !/^Is(?:In|NotIn|Enum|Instance|Optional|DivisibleBy|Hash|IdentityCard|PostalCode|PassportNumber|TaxId|Empty|Date|Array|Object|NotEmptyObject|MobilePhone|ByteLength)$/.test(
        name,
      );
    return takesNothing && typeof decorator === 'function'
      ? [[name, (decorator as () => PropertyDecorator)()]]
      : [];
  }),
  ...([4, '7', 'all', 'loose', 'nil'] as const).map((version): Named => [
    `IsUUID ${version}`,
    cv.IsUUID(version as never),
  ]),
  ['IsIP 4', cv.IsIP('4')],
  ['IsIP 6', cv.IsIP('6')],
  ['Min', cv.Min(1)],
  ['Max', cv.Max(1.5)],
  ['Length', cv.Length(1, 2)],
  ['Contains', cv.Contains('.')],
  ['NotContains', cv.NotContains('a')],
  ['Equals', cv.Equals('a')],
  ['Equals null', cv.Equals(null)],
  ['IsIn', cv.IsIn(['a', 1, true])],
  ['IsEnum', cv.IsEnum({ A: 'a', B: 'Ab1' })],
  ['IsDivisibleBy', cv.IsDivisibleBy(5)],
  ['IsHash', cv.IsHash('md5')],
  ['Matches', cv.Matches(/^.$/)],
  ['Matches i', cv.Matches(/^ab/i)],
  ['Matches u', cv.Matches(/^.$/u)],
  ['Matches p', cv.Matches(/^\p{L}$/u)],
  ['IsString each', cv.IsString({ each: true })],
];

/**
 * Where the schema is meant to be narrower: numbers sent as text, and what is no list where items
 * are meant.
 */
const NARROWER = new Set(['IsLatitude', 'IsLongitude', 'IsString each']);

describe('every decorator', () => {
  it.each(decorators)(
    '%s: the schema turns nothing away that class-validator takes, and the other way round if it says all',
    async (name, decorate) => {
      class Dto {
        value: unknown;
      }
      cv.Allow()(Dto.prototype, 'value');
      decorate(Dto.prototype, 'value');
      const compiled = compileDtoInput({ at: name, type: Dto, reserved: [] });
      const untyped = compiled.findings.length > 0;
      const disputed: unknown[] = [];
      for (const value of untyped ? [] : SAMPLES) {
        const takes = (await cv.validate(instanceBuilder(Dto)({ value }) as object)).length === 0;
        const accepts = validators.validate(compiled.input.schema, { value }).length === 0;
        const tooNarrow = takes && !accepts && !NARROWER.has(name);
        const tooWide = accepts && !takes && !dtoSchema(Dto).needsClassValidator;
        if (tooNarrow || tooWide) disputed.push(value);
      }
      expect(disputed).toEqual([]);
      expect(untyped).toBe(['IsNotEmpty', 'IsDefined'].includes(name));
    },
  );
});
