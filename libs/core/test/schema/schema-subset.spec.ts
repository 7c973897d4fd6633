import { describe, expect, it } from '@jest/globals';
import type { JSONSchema7 } from 'json-schema';
import type { JsonValue } from '@toolloop/core';
import { propertyNamesOf, subsetProblems } from '../../src/schema/subset.js';
import { isReserved, reservedNamesIn } from '../../src/schema/reserved-names.js';

const object = (properties: object, more: object = {}): JSONSchema7 => ({
  type: 'object',
  properties: { ...properties },
  ...more,
});

describe('subsetProblems', () => {
  it('accepts objects, arrays, enums, bounds and local definitions', () => {
    const schema = object(
      {
        name: { type: 'string', minLength: 1 },
        kinds: { type: 'array', items: { enum: ['a'] } },
        tree: { $ref: '#/$defs/Node' },
      },
      { additionalProperties: false, $defs: { Node: object({ next: { $ref: '#/$defs/Node' } }) } },
    );
    expect(subsetProblems(schema)).toEqual([]);
  });

  it.each([
    'oneOf',
    'anyOf',
    'allOf',
    'not',
    'if',
    'then',
    'else',
    'patternProperties',
    'dependencies',
  ])('rejects %s wherever it is', (keyword) => {
    const schema = object(
      { list: { type: 'array', items: object({ value: { [keyword]: {} } }) } },
      { [keyword]: {} },
    );
    expect(subsetProblems(schema).map(({ pointer }) => pointer)).toEqual([
      `/${keyword}`,
      `/properties/list/items/properties/value/${keyword}`,
    ]);
  });

  it('takes a property for a property, though its name be a keyword', () => {
    expect(
      subsetProblems(
        object({ not: { type: 'string' }, oneOf: { type: 'string' }, $ref: { type: 'string' } }),
      ),
    ).toEqual([]);
  });

  it('does not look into data', () => {
    expect(
      subsetProblems(
        object({
          filter: { default: { anyOf: [] }, enum: [{ $ref: 'x' }], examples: [{ not: 1 }] },
        }),
      ),
    ).toEqual([]);
  });

  it.each(['https://example.com/schema.json', '#/definitions/Node', '#', 'other.json#/$defs/A'])(
    'rejects the reference %s',
    ($ref) => {
      expect(subsetProblems(object({ a: { $ref } }))).toEqual([
        {
          pointer: '/properties/a/$ref',
          problem: `"${$ref}" is not supported; only "#/$defs/Name" is`,
        },
      ]);
    },
  );

  it('finds a reference that leads nowhere', () => {
    expect(subsetProblems(object({ a: { $ref: '#/$defs/toString' } }))).toEqual([
      { pointer: '/properties/a/$ref', problem: '"#/$defs/toString" names nothing in $defs' },
    ]);
  });

  it('rejects tuples, and a whole that is no object', () => {
    expect(subsetProblems({ type: 'array', items: [{ type: 'string' }] })).toEqual([
      { pointer: '/type', problem: 'the type of the whole must be "object"' },
      { pointer: '/items', problem: 'items that differ by position are not supported' },
    ]);
  });

  it('escapes names in pointers', () => {
    expect(subsetProblems(object({ 'a/b~c': { not: {} } }))[0]?.pointer).toBe(
      '/properties/a~1b~0c/not',
    );
  });

  it('does not overflow on a schema nested a hundred thousand deep', () => {
    let schema: JSONSchema7 = { not: {} };
    for (let depth = 0; depth < 100_000; depth += 1) schema = { type: 'array', items: schema };
    expect(subsetProblems(object({ deep: schema }))).toHaveLength(1);
  });
});

describe('propertyNamesOf', () => {
  it('names every property once, in definitions and items too', () => {
    const schema = object(
      { a: { type: 'array', items: object({ b: {}, a: {} }) } },
      { $defs: { Node: object({ c: {} }) } },
    );
    expect(propertyNamesOf(schema)).toEqual(['a', 'b', 'c']);
  });
});

describe('reservedNamesIn', () => {
  const reserved = ['tenant', 'tenantId', 'actor'];

  it.each(['tenantId', 'tenant_id', 'TenantId', 'TENANT-ID', 'tenantid'])(
    'takes %s for tenantId',
    (key) => {
      expect(reservedNamesIn({ filter: [{ ok: 1 }, { [key]: 'globex' }] }, reserved)).toBe(
        `/filter/1/${key}`,
      );
      expect(isReserved(key, reserved)).toBe(true);
    },
  );

  it('finds nothing in values, or in names that only begin alike', () => {
    expect(
      reservedNamesIn({ name: 'tenant', tenants: ['actor'], actorName: 'Jo' }, reserved),
    ).toBeUndefined();
  });

  it('gives the first in the order of the text', () => {
    expect(reservedNamesIn({ a: { actor: 1 }, b: { tenant: 1 } }, reserved)).toBe('/a/actor');
    expect(reservedNamesIn({ a: { tenant: 1 }, actor: 1 }, reserved)).toBe('/actor');
  });

  it('escapes keys in the pointer', () => {
    expect(reservedNamesIn({ 'a/b': { tenant: 1 } }, reserved)).toBe('/a~1b/tenant');
  });

  it('sees keys that look like a prototype', () => {
    const value = JSON.parse('{ "__proto__": { "tenantId": "globex" } }') as JsonValue;
    expect(reservedNamesIn(value, reserved)).toBe('/__proto__/tenantId');
  });

  it('does not overflow on a value nested a hundred thousand deep', () => {
    let value: JsonValue = { tenant: 1 };
    for (let depth = 0; depth < 100_000; depth += 1) value = [value];
    expect(reservedNamesIn(value, reserved)).toMatch(/\/tenant$/);
  });
});
