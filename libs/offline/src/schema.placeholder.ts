import type { JsonValue } from '@toolloop/core';
import { isJson, type Schema } from './json.js';
import { accepts, resolved, typeOf } from './schema.check.js';

type Node = Schema | boolean | undefined;

const DEEPEST = 6;

/** A value of the right type where the results hold none: null where it may be, else the least that is valid. */
export function placeholder(node: Node, root: Schema, depth = 0): JsonValue {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || depth > DEEPEST || accepts(schema, null, root)) return null;
  const known = givenValues(schema).find((value) => accepts(schema, value, root));
  if (known !== undefined) return known;
  const [branch] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  return branch === undefined ? leastOf(schema, root, depth) : placeholder(branch, root, depth + 1);
}

/** The values a schema names itself. */
function givenValues(schema: Schema): JsonValue[] {
  const given: unknown[] = [schema.const, schema.default, ...(schema.enum ?? [])];
  return given.filter(isJson);
}

function leastOf(schema: Schema, root: Schema, depth: number): JsonValue {
  const type = typeOf(schema);
  if (type === 'object')
    return Object.fromEntries((schema.required ?? []).map((key) => [key, placeholder(schema.properties?.[key], root, depth + 1)]));
  if (type === 'array') return Array.from({ length: schema.minItems ?? 0 }, () => placeholder(itemsOf(schema), root, depth + 1));
  if (type === 'boolean') return false;
  const values: readonly JsonValue[] = type === 'number' || type === 'integer' ? numbers(schema) : texts(schema);
  return values.find((value) => accepts(schema, value, root)) ?? values[0] ?? null;
}

function itemsOf({ items }: Schema): Node {
  return Array.isArray(items) ? items[0] : items;
}

function numbers({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf = 1 }: Schema): number[] {
  const least = minimum ?? exclusiveMinimum ?? maximum ?? exclusiveMaximum ?? 0;
  const stepped = Math.ceil(least / multipleOf) * multipleOf;
  return [0, least, stepped, stepped + multipleOf, stepped - multipleOf, least + 1, least - 1];
}

const TEXTS = [
  '',
  'unknown',
  '1970-01-01',
  '1970-01-01T00:00:00Z',
  'unknown@example.com',
  'https://example.com',
  '00000000-0000-0000-0000-000000000000',
];

function texts({ minLength = 0 }: Schema): string[] {
  return [...TEXTS, ...['-', '0', 'A', 'a'].map((sign) => sign.repeat(minLength))];
}
