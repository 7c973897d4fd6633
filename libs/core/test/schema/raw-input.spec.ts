import { describe, expect, it, jest } from '@jest/globals';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { IsInt, IsString } from 'class-validator';
import type { JSONSchema7 } from 'json-schema';
import type { RawInput, StandardInput } from '../../src/tools/decorators/raw-tool.js';
import type { JsonObject } from '@toolloop/core';
import { canonicalJson } from '../../src/schema/canonical-json.js';
import { compileRawInput } from '../../src/schema/raw-input.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import type { CompiledInput } from '../../src/schema/tool-input.js';

const validators = new SchemaValidators();
const compile = (input: RawInput | undefined): CompiledInput =>
  compileRawInput({ at: 'web__fetch_page', input, reserved: ['tenant'] }, validators);

/** All that the argument reader does with arguments, from JSON on. */
async function read({ input }: CompiledInput, sent: JsonObject): Promise<unknown> {
  const args = input.normalize(sent);
  const problems = validators.validate(input.schema, args);
  if (problems.length > 0) return { problems };
  const canonical = canonicalJson(args);
  return { canonical, ...(await input.read(args)) };
}

const problemsOf = ({ findings }: CompiledInput): string[] =>
  findings.map(({ problem }) => problem);

const PAGE: JSONSchema7 = {
  type: 'object',
  properties: {
    url: { type: 'string' },
    since: { type: 'string' },
    limit: { type: 'integer', default: 5 },
  },
  required: ['url', 'since'],
};

/**
 * As a schema library makes one; Zod is no dependency. What it gives the tool has a Date where the
 * arguments have text.
 */
function standard(
  options: { json?: object; issues?: readonly StandardSchemaV1.Issue[]; slow?: boolean } = {},
): StandardInput {
  const {
    json = { $schema: 'http://json-schema.org/draft-07/schema#', ...PAGE },
    issues,
    slow = false,
  } = options;
  const result = (value: unknown): StandardSchemaV1.Result<unknown> =>
    issues
      ? { issues }
      : {
          value: {
            ...(value as object),
            since: new Date(Reflect.get(value as object, 'since') as string),
          },
        };
  const validate = (
    value: unknown,
  ): StandardSchemaV1.Result<unknown> | Promise<StandardSchemaV1.Result<unknown>> =>
    slow ? Promise.resolve(result(value)) : result(value);
  const input = ({ target }: { readonly target: string }): Record<string, unknown> => {
    if (target !== 'draft-07') throw new Error(`No ${target}`);
    return { ...json };
  };
  return {
    '~standard': { version: 1, vendor: 'tiny', validate, jsonSchema: { input, output: input } },
  };
}

const object = (properties: Record<string, JSONSchema7>, required?: string[]): JSONSchema7 => ({
  type: 'object',
  properties,
  ...(required && { required }),
  additionalProperties: false,
});

describe('a raw tool without an input', () => {
  it('takes no arguments', async () => {
    const compiled = compile(undefined);
    expect(compiled).toMatchObject({
      findings: [],
      input: {
        schema: { type: 'object', properties: {}, additionalProperties: false },
        hidden: [],
        reserved: ['tenant'],
      },
    });
    expect(await read(compiled, {})).toEqual({ canonical: '{}', value: {} });
  });
});

describe('a raw tool with a DTO', () => {
  it('receives an instance', async () => {
    class Page {
      @IsString() url!: string;
      @IsInt() limit = 5;
    }
    const reading = await read(compile(Page), { url: 'a', limit: null });
    expect(reading).toEqual({ canonical: '{"limit":5,"url":"a"}', value: { url: 'a', limit: 5 } });
    expect(reading).toHaveProperty('value', expect.any(Page));
  });
});

describe('a raw tool with a JSON Schema', () => {
  it('receives the arguments, with defaults for nulls', async () => {
    const compiled = compile(PAGE);
    expect(compiled.findings).toEqual([]);
    expect(await read(compiled, { url: 'a', since: 'b', limit: null })).toEqual({
      canonical: '{"limit":5,"since":"b","url":"a"}',
      value: { url: 'a', since: 'b', limit: 5 },
    });
    expect(await read(compiled, { url: 'a', since: 'b', limt: 1 })).toEqual({
      problems: [{ pointer: '/limt', message: 'unknown argument "limt"; did you mean "limit"?' }],
    });
  });

  it('is closed at every depth, unless it says otherwise; the original is not touched', () => {
    const inner: JSONSchema7 = {
      type: 'object',
      properties: { a: {} },
      default: { properties: {} },
    };
    const open: JSONSchema7 = {
      type: 'object',
      properties: { a: {} },
      additionalProperties: inner,
    };
    const free: JSONSchema7 = { type: 'object' };
    const source: JSONSchema7 = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        inner,
        open,
        free,
        properties: inner,
        list: { type: 'array', items: inner },
        named: { $ref: '#/definitions/Named' },
      },
      definitions: { Named: inner },
    };
    const before = structuredClone(source);
    const closed = { ...inner, additionalProperties: false };
    expect(compile(source)).toMatchObject({ findings: [] });
    expect(compile(source).input.schema).toEqual({
      type: 'object',
      properties: {
        inner: closed,
        open: { ...open, additionalProperties: closed },
        free,
        properties: closed,
        list: { type: 'array', items: closed },
        named: { $ref: '#/$defs/Named' },
      },
      $defs: { Named: closed },
      additionalProperties: false,
    });
    expect(source).toEqual(before);
  });

  it('takes no properties when it declares none', () => {
    expect(compile({ type: 'object' }).input.schema).toEqual({
      type: 'object',
      properties: {},
      additionalProperties: false,
    });
  });

  it.each<[JSONSchema7, string]>([
    [
      { type: 'array' },
      'The input schema leaves the supported subset at "/type": the type of the whole must be "object".',
    ],
    [
      { type: 'object', properties: { a: { anyOf: [{}, {}] } } },
      'The input schema leaves the supported subset at "/properties/a/anyOf": "anyOf" is not supported.',
    ],
    [{ type: 'object', properties: { tenant: {} } }, 'The argument "tenant" has a reserved name.'],
  ])('%j is a finding', (schema, problem) => {
    expect(compile(schema).findings).toEqual([
      { at: 'web__fetch_page', problem, remedy: expect.any(String) },
    ]);
  });

  it.each<[string, JSONSchema7, JSONSchema7]>([
    [
      'an optional value as pydantic writes it',
      object({
        limit: {
          anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }],
          default: null,
          title: 'Limit',
        },
      }),
      object({ limit: { type: 'integer', minimum: 1, title: 'Limit' } }),
    ],
    [
      'a default that is a value',
      object({ limit: { anyOf: [{ type: 'null' }, { type: 'integer' }], default: 3 } }),
      object({ limit: { type: 'integer', default: 3 } }),
    ],
    [
      'a value that must be given',
      object({ unit: { anyOf: [{ type: 'string', enum: ['c', 'f'] }, { type: 'null' }] } }, [
        'unit',
      ]),
      object({ unit: { type: ['string', 'null'], enum: ['c', 'f', null] } }, ['unit']),
    ],
    [
      'a reference that must be given',
      {
        ...object({ at: { anyOf: [{ $ref: '#/$defs/Place' }, { type: 'null' }] } }, ['at']),
        $defs: { Place: object({}) },
      },
      {
        ...object({ at: { $ref: '#/$defs/PlaceOrNull' } }, ['at']),
        $defs: { Place: object({}), PlaceOrNull: { ...object({}), type: ['object', 'null'] } },
      },
    ],
    [
      'a reference that may be left out',
      {
        ...object({ at: { anyOf: [{ $ref: '#/$defs/Place' }, { type: 'null' }], default: null } }),
        $defs: { Place: object({}) },
      },
      { ...object({ at: { $ref: '#/$defs/Place' } }), $defs: { Place: object({}) } },
    ],
    [
      'a definition that contains itself',
      {
        ...object({ first: { $ref: '#/$defs/Node' } }),
        $defs: {
          Node: object({ next: { oneOf: [{ $ref: '#/$defs/Node' }, { type: 'null' }] } }, ['next']),
        },
      },
      {
        ...object({ first: { $ref: '#/$defs/Node' } }),
        $defs: {
          Node: object({ next: { $ref: '#/$defs/NodeOrNull' } }, ['next']),
          NodeOrNull: {
            ...object({ next: { $ref: '#/$defs/NodeOrNull' } }, ['next']),
            type: ['object', 'null'],
          },
        },
      },
    ],
    [
      'values without a type that must be given',
      object(
        {
          a: { anyOf: [{ enum: ['c', 'f'] }, { type: 'null' }] },
          b: { anyOf: [{ const: 1 }, { type: 'null' }] },
        },
        ['a', 'b'],
      ),
      object({ a: { enum: ['c', 'f', null] }, b: { enum: [1, null] } }, ['a', 'b']),
    ],
    [
      'a list of references or nulls',
      {
        ...object({
          at: {
            type: 'array',
            items: { anyOf: [{ $ref: '#/definitions/Place' }, { type: 'null' }] },
          },
        }),
        definitions: { Place: object({}) },
      },
      {
        ...object({ at: { type: 'array', items: { $ref: '#/$defs/PlaceOrNull' } } }),
        $defs: { Place: object({}), PlaceOrNull: { ...object({}), type: ['object', 'null'] } },
      },
    ],
    [
      'oneOf, and unions of one kind',
      object(
        {
          a: { oneOf: [{ type: 'string' }, { type: 'null' }] },
          b: { anyOf: [{ type: 'string' }] },
          c: { allOf: [{ type: 'string' }], description: 'C' },
        },
        ['a', 'b'],
      ),
      object(
        {
          a: { type: ['string', 'null'] },
          b: { type: 'string' },
          c: { type: 'string', description: 'C' },
        },
        ['a', 'b'],
      ),
    ],
    [
      'an optional value whose examples show null',
      object({
        limit: {
          anyOf: [{ type: 'integer' }, { type: 'null' }],
          default: null,
          examples: [null, 3],
        },
      }),
      object({ limit: { type: 'integer', examples: [3] } }),
    ],
    [
      'a model that contains itself, as pydantic writes it',
      {
        $ref: '#/$defs/Node',
        $defs: {
          Node: {
            type: 'object',
            title: 'Node',
            properties: { next: { anyOf: [{ $ref: '#/$defs/Node' }, { type: 'null' }] } },
          },
        },
      },
      {
        ...object({ next: { $ref: '#/$defs/Node' } }),
        title: 'Node',
        $defs: { Node: { ...object({ next: { $ref: '#/$defs/Node' } }), title: 'Node' } },
      },
    ],
    [
      'such a model as older versions write it',
      {
        allOf: [{ $ref: '#/definitions/Node' }],
        title: 'Tree',
        definitions: { Node: object({ name: { type: 'string' } }) },
      },
      {
        ...object({ name: { type: 'string' } }),
        title: 'Tree',
        $defs: { Node: object({ name: { type: 'string' } }) },
      },
    ],
    [
      'an item, and what is nested',
      object({
        list: {
          type: 'array',
          items: {
            anyOf: [
              object({ a: { anyOf: [{ type: 'boolean' }, { type: 'null' }] } }),
              { type: 'null' },
            ],
          },
        },
      }),
      object({
        list: {
          type: 'array',
          items: { ...object({ a: { type: 'boolean' } }), type: ['object', 'null'] },
        },
      }),
    ],
  ])('reads a union with null: %s', (_, source, schema) => {
    const compiled = compile(source);
    expect(compiled.findings).toEqual([]);
    expect(compiled.input.schema).toEqual(schema);
  });

  it('takes null for an optional value as not given', async () => {
    const compiled = compile(
      object({ limit: { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null } }),
    );
    expect(await read(compiled, { limit: null })).toMatchObject({ value: {} });
    expect(await read(compiled, { limit: 2 })).toMatchObject({ value: { limit: 2 } });
  });

  it.each<[string, JSONSchema7]>([
    ['reference', { $ref: '#/$defs/Place' }],
    ['list of values', { enum: ['a', 'b'] }],
    ['constant', { const: 'a' }],
  ])('takes null for a required value as null: %s', async (_, value) => {
    const source = object({ a: { anyOf: [value, { type: 'null' }] } }, ['a']);
    const compiled = compile({ ...source, $defs: { Place: object({}) } });
    expect(await read(compiled, { a: null })).toMatchObject({ value: { a: null } });
    expect(await read(compiled, {})).toHaveProperty('problems');
  });

  it.each<[string, JSONSchema7]>([
    ['three kinds', { anyOf: [{ type: 'string' }, { type: 'integer' }, { type: 'null' }] }],
    ['two kinds', { anyOf: [{ type: 'string' }, { type: 'integer' }] }],
    ['no kind but null', { anyOf: [{ type: 'null' }, { type: 'null' }] }],
    [
      'one kind that the schema beside it contradicts',
      { type: 'string', maxLength: 9, anyOf: [{ type: 'string', maxLength: 3 }] },
    ],
  ])('is a finding with a union of %s', (_, union) => {
    expect(problemsOf(compile(object({ a: union })))).toEqual([
      expect.stringContaining('"anyOf" is not supported'),
    ]);
  });

  it('is a finding when it does not compile', () => {
    expect(
      problemsOf(compile({ type: 'object', properties: { a: { type: 'text' as never } } })),
    ).toEqual([expect.stringMatching(/^The input schema cannot be used: .*type/)]);
  });

  it('is a finding when it contains itself, or is deeper than the stack', () => {
    const cycle: JSONSchema7 = { type: 'object', properties: {} };
    Reflect.set(cycle.properties ?? {}, 'self', cycle);
    let deep: JSONSchema7 = {};
    for (let depth = 0; depth < 100_000; depth += 1)
      deep = { type: 'object', properties: { deep } };
    for (const schema of [cycle, deep])
      expect(problemsOf(compile(schema))).toEqual([
        expect.stringMatching(/^The input has no JSON Schema: /),
      ]);
  });
});

describe('a raw tool with a Standard Schema', () => {
  it.each([false, true])(
    'receives what the schema makes of the arguments, asynchronous: %s',
    async (slow) => {
      const compiled = compile(standard({ slow }));
      expect(compiled.findings).toEqual([]);
      expect(compiled.input.schema).toEqual({ ...PAGE, additionalProperties: false });
      expect(await read(compiled, { url: 'a', since: '2026-01-31', limit: null })).toEqual({
        canonical: '{"limit":5,"since":"2026-01-31","url":"a"}',
        value: { url: 'a', since: new Date('2026-01-31'), limit: 5 },
      });
    },
  );

  it('may be a function, or a class', async () => {
    const callable = Object.assign(() => undefined, standard());
    class Page {
      url!: string;
      static readonly '~standard' = standard()['~standard'];
    }
    for (const schema of [callable, Page])
      expect(await read(compile(schema), { url: 'a', since: '2026-01-31' })).toHaveProperty(
        'value.since',
        new Date('2026-01-31'),
      );
  });

  it('is converted once', async () => {
    const schema = standard();
    const convert = jest.spyOn(schema['~standard'].jsonSchema, 'input');
    const compiled = compile(schema);
    await read(compiled, { url: 'a', since: '2026-01-31' });
    await read(compiled, { url: 'b', since: '2026-01-31' });
    expect(convert).toHaveBeenCalledTimes(1);
  });

  it('points to what the schema finds', async () => {
    const issues = [
      { message: 'is taken', path: ['list', 0, { key: 'a/b' }] },
      { message: 'is odd', path: [Symbol('x')] },
      { message: 'is wrong' },
    ];
    expect(await read(compile(standard({ issues })), { url: 'a', since: 'b' })).toEqual(
      expect.objectContaining({
        problems: [
          { pointer: '/list/0/a~1b', message: 'is taken' },
          { pointer: '/Symbol(x)', message: 'is odd' },
          { pointer: '', message: 'is wrong' },
        ],
      }),
    );
  });

  it('says at most ten things, and at least one', async () => {
    const many = Array.from({ length: 30 }, () => ({ message: 'is wrong' }));
    const args = { url: 'a', since: 'b' };
    expect(await read(compile(standard({ issues: many, slow: true })), args)).toHaveProperty(
      'problems.length',
      10,
    );
    expect(await read(compile(standard({ issues: [] })), args)).toHaveProperty('problems', [
      { pointer: '', message: 'is not valid' },
    ]);
  });

  it('is a finding with a remedy when it leaves the subset, or has no JSON Schema', () => {
    const union = standard({
      json: {
        type: 'object',
        properties: { a: { anyOf: [{ type: 'string' }, { type: 'object' }] } },
      },
    });
    const inner = standard();
    const dates: RawInput = {
      '~standard': {
        ...inner['~standard'],
        jsonSchema: {
          ...inner['~standard'].jsonSchema,
          input: () => {
            throw new Error('Date cannot be represented in JSON Schema');
          },
        },
      },
    };
    expect(compile(union).findings).toEqual([
      {
        at: 'web__fetch_page',
        problem:
          'The input schema leaves the supported subset at "/properties/a/anyOf": "anyOf" is not supported.',
        remedy: expect.stringContaining('For a nullable argument take an optional one'),
      },
    ]);
    expect(compile(dates).findings).toEqual([
      {
        at: 'web__fetch_page',
        problem: 'The input has no JSON Schema: Date cannot be represented in JSON Schema',
        remedy: expect.stringContaining('a date is text'),
      },
    ]);
  });

  it('is a finding when its library knows no JSON Schema', () => {
    const { jsonSchema: _, ...props } = standard()['~standard'];
    expect(problemsOf(compile({ '~standard': props } as never))).toEqual([
      'The input is a schema of tiny, which cannot be converted to JSON Schema.',
    ]);
  });
});

it.each([null, 'a', 1, [], () => undefined, String, Date])('%p is no input', (input) => {
  expect(compile(input as never)).toMatchObject({ input: { schema: { properties: {} } } });
  expect(problemsOf(compile(input as never))).toEqual([
    'The input is neither a class nor a schema.',
  ]);
});
