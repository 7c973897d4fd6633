import type { AnswerFormat } from '@toolloop/core';
import { isWireObject, type WireObject } from './chat-wire.js';

/**
 * Keywords strict mode knows (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas). One it does not know fails the whole
 * request, so such a schema is sent without `strict`: the loop checks the answer anyway.
 */
const STRICT_KEYWORDS = new Set(
  (
    'type title description enum const properties required additionalProperties items anyOf $ref $defs definitions pattern format ' +
    'multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems'
  ).split(' '),
);

const STRICT_FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']);

const encoded = new WeakMap<AnswerFormat, string>();

/** The `response_format` of a request, as JSON text. */
export function toResponseFormat(format: AnswerFormat): string {
  const known = encoded.get(format);
  if (known !== undefined) return known;
  const { name, schema } = format;
  const strict = schema.type === 'object' && isStrict(schema);
  const text = JSON.stringify({ type: 'json_schema', json_schema: { name, schema, strict } });
  encoded.set(format, text);
  return text;
}

function isStrict(schema: unknown): boolean {
  if (!isWireObject(schema)) return false;
  if (!Object.keys(schema).every((keyword) => STRICT_KEYWORDS.has(keyword))) return false;
  if (typeof schema.format === 'string' && !STRICT_FORMATS.has(schema.format)) return false;
  return isClosed(schema) && subschemasOf(schema).every(isStrict);
}

/** Every object names all its properties, requires all of them and allows no other. */
function isClosed({ type, properties, required, additionalProperties }: WireObject): boolean {
  const isObject = type === 'object' || (Array.isArray(type) && type.includes('object')) || properties !== undefined;
  if (!isObject) return true;
  const names = isWireObject(properties) ? Object.keys(properties) : [];
  return additionalProperties === false && names.every((name) => Array.isArray(required) && required.includes(name));
}

function subschemasOf({ properties, items, anyOf, $defs, definitions }: WireObject): readonly unknown[] {
  const alternatives: readonly unknown[] = Array.isArray(anyOf) ? anyOf : [];
  const named = [properties, $defs, definitions].filter(isWireObject).flatMap((schemas) => Object.values(schemas));
  return [...named, ...alternatives, ...(items === undefined ? [] : [items])];
}
