import { describe, expect, it } from '@jest/globals';
import type { JSONSchema7 } from 'json-schema';
import type { ToolParamOptions } from '../../src/tools/decorators/tool-parameters.decorator.js';
import { parameterSchema } from '../../src/schema/parameter-schema.js';

enum Status {
  Open = 'open',
  Closed = 'closed',
}

enum Level {
  Low,
  High = 5,
}

class Filter {
  open?: boolean;
}

const one = (
  options: Partial<ToolParamOptions>,
  designType?: unknown,
): ReturnType<typeof parameterSchema> =>
  parameterSchema(
    [{ kind: 'param', index: 0, name: 'value', options: { description: 'A value.', ...options } }],
    [designType],
  );

describe('parameterSchema', () => {
  it('is an object with a property per parameter', () => {
    const { schema, findings } = parameterSchema(
      [
        {
          kind: 'param',
          index: 0,
          name: 'query',
          options: { description: 'What to look for.', minLength: 2 },
        },
        {
          kind: 'param',
          index: 2,
          name: 'limit',
          options: { description: 'How many.', default: 10, minimum: 1, maximum: 50 },
        },
      ],
      [String, Object, Number],
    );
    expect(findings).toEqual([]);
    expect(schema).toEqual({
      type: 'object',
      properties: {
        query: { description: 'What to look for.', type: 'string', minLength: 2 },
        limit: { description: 'How many.', type: 'number', minimum: 1, maximum: 50, default: 10 },
      },
      required: ['query'],
      additionalProperties: false,
    });
  });

  it.each<[string, Partial<ToolParamOptions>, unknown, JSONSchema7]>([
    ['the design type', {}, Boolean, { type: 'boolean' }],
    ['an option over the design type', { type: 'integer' }, Number, { type: 'integer' }],
    ['an option over a wrong design type', { type: 'string' }, Object, { type: 'string' }],
    ['what SWC records of an imported enum', {}, Status, { type: 'string' }],
    ['what SWC records of an imported enum of numbers', {}, Level, { type: 'number' }],
    ['an enum of text', { enum: Status }, Object, { type: 'string', enum: ['open', 'closed'] }],
    [
      'an enum of numbers',
      { enum: Level },
      undefined,
      { description: 'A value. 0 = Low, 5 = High.', type: 'number', enum: [0, 5] },
    ],
    [
      'an enum of integers',
      { enum: [1, 2], type: 'integer' },
      undefined,
      { type: 'integer', enum: [1, 2] },
    ],
    ['a list of values', { enum: ['a', 'b'] }, Object, { type: 'string', enum: ['a', 'b'] }],
    [
      'a list of mixed values',
      { enum: ['a', 1] },
      Object,
      { type: ['string', 'number'], enum: ['a', 1] },
    ],
    ['null', { nullable: true }, String, { type: ['string', 'null'] }],
    [
      'null in an enum',
      { nullable: true, enum: ['a'] },
      undefined,
      { type: ['string', 'null'], enum: ['a', null] },
    ],
    ['null by default', { default: null }, String, { type: ['string', 'null'], default: null }],
    ['an optional value, which null is not', { required: false }, String, { type: 'string' }],
    ['an array of strings', { type: 'array' }, Array, { type: 'array', items: { type: 'string' } }],
    [
      'an array of what is said',
      { items: { type: 'integer', minimum: 1 }, maxItems: 3 },
      Array,
      { type: 'array', maxItems: 3, items: { type: 'integer', minimum: 1 } },
    ],
    [
      'an array of an enum',
      { items: { enum: Status } },
      Array,
      { type: 'array', items: { type: 'string', enum: ['open', 'closed'] } },
    ],
    [
      'the enum of an array, which is that of its items',
      { type: 'array', enum: ['a'] },
      Array,
      { type: 'array', items: { type: 'string', enum: ['a'] } },
    ],
    [
      'a pattern and a format',
      { pattern: '^a', format: 'uri', maxLength: 9 },
      String,
      { type: 'string', maxLength: 9, pattern: '^a', format: 'uri' },
    ],
  ])('takes %s', (_, options, designType, expected) => {
    const { schema, findings } = one(options, designType);
    expect(findings).toEqual([]);
    expect(schema.properties?.['value']).toEqual({ description: 'A value.', ...expected });
  });

  it.each([
    [{}, ['value']],
    [{ required: false }, undefined],
    [{ default: 'a' }, undefined],
    [{ default: 'a', required: true }, ['value']],
    [{ nullable: true }, ['value']],
  ])('requires, given %j, %j', (options, required) => {
    expect(one(options, String).schema.required).toEqual(required);
  });

  it.each([Object, undefined, Array, Date, Function, Filter])(
    'does not know what %p is',
    (designType) => {
      expect(one({}, designType).findings).toEqual([
        {
          path: 'value',
          problem: 'is a parameter whose type is not known at run time',
          remedy:
            'Say it in the options: @ToolParam(name, { type: "string" }), or enum: Status. Take an object by @ToolInput() with a DTO class.',
        },
      ]);
    },
  );

  it('finds a name that every object has, an empty enum, and a default that is no JSON', () => {
    const named = parameterSchema(
      [{ kind: 'param', index: 0, name: 'toString', options: { description: '' } }],
      [String],
    );
    expect(named.findings.map(({ problem }) => problem)).toEqual([
      'is a name that every object has',
    ]);
    expect(one({ enum: [] }, String).findings.map(({ problem }) => problem)).toEqual([
      'allows no value at all',
    ]);
    expect(
      one({ default: new Date() as never }, String).findings.map(({ problem }) => problem),
    ).toEqual(['has a default that is not JSON']);
  });
});
