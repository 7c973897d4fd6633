import { describe, expect, it } from '@jest/globals';
import type { ToolSpec } from '@toolloop/core';
import { toMessagesRequest } from '../src/index.js';
import { anthropicBody, ask, toolSpec } from './requests.js';

interface SentTool {
  readonly name: string;
  readonly strict?: boolean;
  readonly input_schema: object;
}

function sent(tools: readonly ToolSpec[], strictTools?: boolean): readonly SentTool[] {
  return anthropicBody(ask('Go on.', { tools }), {
    promptCache: false,
    ...(strictTools !== undefined && { strictTools }),
  }).tools as SentTool[];
}

function tool(name: string, inputSchema: object): ToolSpec {
  return { ...toolSpec(name), inputSchema };
}

const textOf = (tools: readonly ToolSpec[]): string =>
  toMessagesRequest(ask('Go on.', { tools }), {
    model: 'own-1',
    strictTools: true,
    promptCache: false,
  });

const ID = {
  type: 'object',
  properties: { id: { type: 'integer' } },
  required: ['id'],
  additionalProperties: false,
};
const NODE = {
  type: 'object',
  properties: { next: { $ref: '#/$defs/node' } },
  additionalProperties: false,
};

describe('a strict tool', () => {
  it('is asked for by option only', () => {
    expect(sent([tool('one', ID)]).map(({ strict }) => strict)).toEqual([undefined]);
    expect(sent([tool('one', ID)], true).map(({ strict }) => strict)).toEqual([true]);
  });

  it.each([
    [
      'an object of names that are unknown',
      { ...ID, properties: { id: { type: 'object', additionalProperties: { type: 'string' } } } },
    ],
    ['itself', { ...NODE, $defs: { node: NODE } }],
    ['what is nowhere', { ...ID, properties: { id: { $ref: '#/$defs/gone' } } }],
    [
      'more optional properties than a request may have',
      {
        ...ID,
        properties: Object.fromEntries(
          Array.from({ length: 26 }, (_, at) => [`p${at}`, { type: 'string' }]),
        ),
        required: [],
      },
    ],
  ])('is not one whose schema holds %s', (_what, schema) => {
    expect(
      sent([tool('loose', schema), tool('strict', ID)], true).map(({ strict }) => strict),
    ).toEqual([undefined, true]);
  });

  it('has a schema in the keywords that the API knows; the others are told', () => {
    const schema = {
      ...ID,
      properties: { id: { type: 'integer', minimum: 1, description: 'Which' } },
    };
    expect(sent([tool('one', schema)], true)[0]?.input_schema).toEqual({
      ...ID,
      properties: { id: { type: 'integer', description: 'Which; minimum: 1' } },
    });
    expect(sent([tool('one', schema)])[0]?.input_schema).toEqual(schema);
  });

  it('is one of 20 at the most, which share their optional properties', () => {
    const many = Array.from({ length: 22 }, (_, at) => tool(`tool_${at}`, ID));
    expect(sent(many, true).filter(({ strict }) => strict)).toHaveLength(20);
    const optional = {
      ...ID,
      properties: Object.fromEntries(
        Array.from({ length: 13 }, (_, at) => [`p${at}`, { type: 'string' }]),
      ),
      required: [],
    };
    expect(
      sent([tool('a', optional), tool('b', optional), tool('c', ID)], true).map(
        ({ strict }) => strict,
      ),
    ).toEqual([true, undefined, true]);
  });

  it('keeps its bytes when others come behind it', () => {
    const [first, second] = [tool('one', ID), tool('two', ID)];
    const one = JSON.stringify(sent([first], true)[0]);
    expect(one).toContain('"strict":true');
    expect([
      textOf([first]).includes(`"tools":[${one}]`),
      textOf([first, second]).includes(`"tools":[${one},{`),
    ]).toEqual([true, true]);
  });
});
