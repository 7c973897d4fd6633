import { describe, expect, it } from '@jest/globals';
import type { AnswerFormat } from '@toolloop/protocol';
import { anthropicBody } from './requests.js';

type Schema = AnswerFormat['schema'];

const CLOSED: Schema = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
};

interface Body {
  readonly output_config?: { readonly format: { readonly type: string; readonly schema: Schema } };
  readonly system?: readonly { readonly text: string }[];
}

function bodyFor(schema: Schema): Body {
  const request = {
    messages: [],
    tools: [],
    instructions: 'Help.',
    answerFormat: { name: 'answer', schema },
  };
  return anthropicBody(request);
}

function schemaFor(schema: Schema): Schema | undefined {
  return bodyFor(schema).output_config?.format.schema;
}

describe('the form of an answer', () => {
  it('is asked for by schema', () => {
    expect(bodyFor(CLOSED).output_config).toEqual({
      format: { type: 'json_schema', schema: CLOSED },
    });
    expect(bodyFor(CLOSED).system).toHaveLength(1);
  });

  it('keeps definitions, alternatives, lists and formats', () => {
    const schema: Schema = {
      ...CLOSED,
      properties: {
        a: { anyOf: [{ $ref: '#/$defs/b' }, { type: 'null' }] },
        list: { type: 'array', items: { $ref: '#/$defs/b' }, minItems: 1 },
        when: { type: 'string', format: 'date-time', enum: ['x'] },
      },
      $defs: { b: CLOSED },
    };
    expect(schemaFor(schema)).toEqual(schema);
  });

  it('closes an object that only leaves it open whether it is', () => {
    expect(schemaFor({ type: 'object', properties: { a: { type: 'string' } } })).toEqual({
      type: 'object',
      properties: { a: { type: 'string' } },
      additionalProperties: false,
    });
  });

  it('tells in the description what the API does not know', () => {
    const schema: Schema = {
      ...CLOSED,
      properties: {
        a: { type: 'string', description: 'A code', minLength: 2, format: 'regex' },
        n: { type: 'array', items: {}, minItems: 2 },
      },
    };
    expect(schemaFor(schema)?.properties).toEqual({
      a: { type: 'string', description: 'A code; minLength: 2; format: "regex"' },
      n: { type: 'array', items: {}, description: 'minItems: 2' },
    });
  });

  it('says an object or null as alternatives', () => {
    const schema: Schema = {
      ...CLOSED,
      properties: { a: { ...CLOSED, type: ['object', 'null'], description: 'Perhaps' } },
    };
    expect(schemaFor(schema)?.properties?.a).toEqual({
      description: 'Perhaps',
      anyOf: [CLOSED, { type: 'null' }],
    });
  });

  it.each([
    ['the answer is no object', { type: 'array', items: { type: 'string' } }],
    [
      'an object has names that are unknown',
      {
        ...CLOSED,
        properties: { a: { type: 'object', additionalProperties: { type: 'string' } } },
      },
    ],
    ['an object is free', { ...CLOSED, properties: { a: { type: 'object' } } }],
    [
      'a definition is free',
      { ...CLOSED, properties: { a: { $ref: '#/$defs/b' } }, $defs: { b: { type: 'object' } } },
    ],
    [
      'it contains itself',
      {
        ...CLOSED,
        properties: { a: { $ref: '#/$defs/b' } },
        $defs: { b: { ...CLOSED, properties: { b: { $ref: '#/$defs/b' } } } },
      },
    ],
    ['a definition is missing', { ...CLOSED, properties: { a: { $ref: '#/$defs/c' } } }],
    [
      'more is optional than the API takes',
      {
        ...CLOSED,
        required: [],
        properties: Object.fromEntries(
          Array.from({ length: 25 }, (_, at) => [`p${at}`, { type: 'string' as const }]),
        ),
      },
    ],
    [
      'there are more unions than the API takes',
      {
        ...CLOSED,
        required: Array.from({ length: 17 }, (_, at) => `p${at}`),
        properties: Object.fromEntries(
          Array.from({ length: 17 }, (_, at) => [
            `p${at}`,
            { type: ['string' as const, 'null' as const] },
          ]),
        ),
      },
    ],
  ] satisfies readonly (readonly [string, Schema])[])(
    'is told in words where %s',
    (_why, schema) => {
      const body = bodyFor(schema);
      expect(body).not.toHaveProperty('output_config');
      expect(body.system?.[0]?.text).toBe('Help.');
      expect(body.system?.[1]?.text).toContain(JSON.stringify(schema));
    },
  );
});
