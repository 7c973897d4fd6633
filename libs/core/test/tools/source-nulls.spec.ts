import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '@toolloop/core';
import { sourceTool } from '@toolloop/core/sources';
import { isJsonList, isJsonObject, type JsonValue } from '@toolloop/protocol';
import * as fc from 'fast-check';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import { SchemaValidators } from '../../src/schema/validators.js';
import { copyContribution } from '../../src/tools/discovery/contributed-tools.js';

/** Reads arguments as a call does: the ones that the source receives, and the problems. */
function reader(inputSchema: JSONSchema7, trusted: boolean) {
  const validators = new SchemaValidators();
  const origin = { source: 'remote', trusted };
  const given = sourceTool({
    id: 'remote__run',
    description: 'x',
    inputSchema,
    origin,
    invoke: String,
  });
  const { tool } = copyContribution(given, { reservedArguments: [], validators });
  return (sent: JsonObject) => {
    const args = structuredClone(tool.input.normalize(sent));
    return { args, problems: validators.validate(tool.input.schema, args) };
  };
}

const TEXT: JSONSchema7 = { type: 'string' };
const NULL: JSONSchema7 = { type: 'null' };
const closed = (properties: Record<string, JSONSchema7>, required: string[] = []): JSONSchema7 => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});
const FILTER = closed({ owner: TEXT, state: TEXT });

describe.each([true, false])(
  'a null in the arguments of a tool of a source, trusted: %s',
  (trusted) => {
    it.each<readonly [string, JSONSchema7, JsonObject, JsonObject]>([
      ['of the call itself', closed({ owner: TEXT }), { owner: null }, {}],
      ['in the place of a filter', closed({ filter: FILTER }), { filter: null }, {}],
      [
        'beside a value',
        closed({ filter: FILTER }),
        { filter: { owner: null, state: 'open' } },
        { filter: { state: 'open' } },
      ],
      [
        'that is the default of its source',
        closed({ limit: { anyOf: [{ type: 'integer' }, NULL], default: null } }),
        { limit: null },
        {},
      ],
    ])('is none where its source knows none: %s', (_, schema, sent, args) => {
      expect(reader(schema, trusted)(sent)).toEqual({ args, problems: [] });
    });

    it.each<readonly [string, JSONSchema7]>([
      ['a union', { anyOf: [TEXT, NULL] }],
      ['a list of types', { type: ['string', 'null'] }],
      ['listed values', { enum: ['a', null] }],
      ['a union with another default', { anyOf: [TEXT, NULL], default: 'a' }],
    ])('is passed on where its source takes it: %s', (_, schema) => {
      const sent = { owner: null, filter: { owner: null } };
      const whole = closed({ owner: schema, filter: closed({ owner: schema }) });
      expect(reader(whole, trusted)(sent)).toEqual({ args: sent, problems: [] });
    });

    it.each<readonly [string, JsonObject, string]>([
      ['a filter', { filter: { owner: null } }, '/filter/owner'],
      ['each of its members', { filter: { owner: null, state: null } }, '/filter/owner'],
      ['a part of a filter', { not: { filter: { owner: null } } }, '/not/filter/owner'],
      ['all parts of a filter', { not: { filter: null } }, '/not/filter'],
      ['one of a list', { any: [{ state: 'open' }, { owner: null }] }, '/any/1/owner'],
    ])('is refused at its place where nothing else is left: %s', (_, sent, pointer) => {
      const any: JSONSchema7 = { type: 'array', items: FILTER };
      const schema = closed({ filter: FILTER, not: closed({ filter: FILTER }), any });
      const { problems } = reader(schema, trusted)(sent);
      expect(problems[0]).toMatchObject({ pointer });
    });
  },
);

/** A property of an object: its schema, and whether its source takes null for it. */
const leaf = fc.constantFrom<JSONSchema7>(
  TEXT,
  { type: 'integer' },
  { type: ['string', 'null'] },
  { anyOf: [TEXT, NULL] },
  { anyOf: [TEXT, NULL], default: null },
  { enum: ['a', null] },
);
const { object } = fc.letrec<{ object: JSONSchema7; any: JSONSchema7 }>((tie) => ({
  any: fc.oneof({ maxDepth: 3, withCrossShrink: true }, leaf, tie('object'), items(tie('object'))),
  object: fc
    .record({
      properties: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('any'), {
        minKeys: 1,
        maxKeys: 3,
      }),
      required: fc.subarray(['a', 'b', 'c']),
    })
    .map(({ properties, required }) =>
      closed(
        properties,
        required.filter((name) => name in properties),
      ),
    ),
}));

function items(of: fc.Arbitrary<JSONSchema7>): fc.Arbitrary<JSONSchema7> {
  return of.map((one) => ({ type: 'array', items: one }));
}

/** Arguments for a schema: each part is right, null, or left out. */
function argumentsFor(schema: JSONSchema7Definition | undefined): fc.Arbitrary<JsonValue> {
  if (typeof schema !== 'object') return fc.constant('x');
  if (schema.type === 'object') return objectFor(schema);
  if (schema.type === 'array')
    return fc.array(argumentsFor(schema.items as JSONSchema7), { maxLength: 2 });
  return fc.constant(schema.type === 'integer' ? 1 : 'a');
}

function objectFor({ properties = {} }: JSONSchema7): fc.Arbitrary<JsonObject> {
  const parts = Object.entries(properties).map(
    ([name, part]) =>
      [name, fc.oneof(argumentsFor(part), fc.constant(null), fc.constant(undefined))] as const,
  );
  return fc
    .record(Object.fromEntries(parts))
    .map((given) => JSON.parse(JSON.stringify(given)) as JsonObject);
}

/** The places at which a part of what was sent is gone without its schema allowing that. */
function lossesIn(
  sent: JsonValue,
  got: JsonValue | undefined,
  schema: JSONSchema7,
  at = '',
): string[] {
  if (isJsonList(sent))
    return sent.flatMap((one, index) =>
      lossesIn(
        one,
        isJsonList(got) ? got[index] : undefined,
        schema.items as JSONSchema7,
        `${at}/${index}`,
      ),
    );
  if (!isJsonObject(sent)) return sent === got ? [] : [at];
  if (!isJsonObject(got)) return [at];
  const isEmptied = at !== '' && Object.keys(got).length === 0 && Object.keys(sent).length > 0;
  const within = Object.entries(sent).flatMap(([name, one]) => {
    const part = schema.properties?.[name] as JSONSchema7;
    const isAbsent = one === null && !(name in got);
    const mayGo = !schema.required?.includes(name) && !takesNull(part);
    return isAbsent && mayGo ? [] : lossesIn(one, got[name], part, `${at}/${name}`);
  });
  return isEmptied ? [at, ...within] : within;
}

/** A default of null says that null and nothing are the same. */
function takesNull({ type, anyOf, enum: values, default: absent }: JSONSchema7): boolean {
  if (anyOf) return absent !== null;
  return [type].flat().includes('null') || values?.includes(null) === true;
}

describe('the arguments of tools of sources, whatever their schemas', () => {
  it('lose no null but one that their source does not take, and no object all of its members', () => {
    const cases = object.chain((schema) => fc.tuple(fc.constant(schema), objectFor(schema)));
    fc.assert(
      fc.property(cases, fc.boolean(), ([schema, sent], trusted) => {
        expect(lossesIn(sent, reader(schema, trusted)(sent).args, schema)).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  it('are refused only at a place that is missing or null', () => {
    const cases = object.chain((schema) => fc.tuple(fc.constant(schema), objectFor(schema)));
    fc.assert(
      fc.property(cases, fc.boolean(), ([schema, sent], trusted) => {
        for (const { pointer } of reader(schema, trusted)(sent).problems)
          expect(valueAt(sent, pointer) ?? null).toBeNull();
      }),
      { numRuns: 100 },
    );
  });
});

function valueAt(sent: JsonValue, pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], sent);
}
