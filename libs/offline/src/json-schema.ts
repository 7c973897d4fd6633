import type { JsonObject, JsonValue, ToolSpec } from '@toolloop/core';

/** A JSON Schema as a tool carries it. */
export type Schema = ToolSpec['inputSchema'];
export type SchemaNode = Schema | boolean | undefined;

export function isJson(value: unknown): value is JsonValue {
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isJson);
  return value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isJsonArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

export function isScalar(value: JsonValue | undefined): value is string | number | boolean {
  return value !== undefined && value !== null && typeof value !== 'object';
}

/** The JSON a text holds; undefined when it holds none. */
export function parseJson(text: string): JsonValue | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJson(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** JSON text with sorted keys, so that equal values are equal text. */
export function canonicalJson(value: JsonValue): string {
  if (isJsonArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const entries = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonicalJson(entry)}`).join(',')}}`;
}

/** A value as text: a string as it is, anything else as JSON. */
export function plainText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The schema a local `$ref` leads to; `false` when it leads nowhere. */
export function resolved(node: SchemaNode = true, root: Schema, depth = 0): Schema | boolean {
  if (typeof node === 'boolean' || node.$ref === undefined) return node;
  let found: unknown = node.$ref.startsWith('#') && depth < 8 ? root : undefined;
  for (const part of node.$ref.split('/').slice(1)) found = isJsonObject(found) ? found[part] : undefined;
  return isJsonObject(found) ? resolved(found, root, depth + 1) : false;
}

/** A schema's type; of several the first that is not null. */
export function typeOf({ type, properties, items, enum: values, const: only }: Schema): string | undefined {
  const types = [type ?? []].flat();
  if (types.length > 0) return types.find((one) => one !== 'null') ?? types[0];
  if (properties ?? items) return properties ? 'object' : 'array';
  const [first = only] = values ?? [];
  return first === undefined ? undefined : typeof first;
}

/** Keywords this check does not know; a schema with one of them accepts nothing, so that nothing wrong is ever sent. */
const UNKNOWN = 'if not patternProperties dependencies contains propertyNames additionalItems minProperties maxProperties'.split(' ');
const CHECKS = [isAmong, isWithin, isText, isList, isRecord, isCombined] as const;

/** Tells whether a value satisfies a schema, so far as this model understands it; in doubt it does not. */
export function accepts(node: SchemaNode, value: JsonValue, root: Schema): boolean {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean') return schema;
  return !UNKNOWN.some((keyword) => keyword in schema) && CHECKS.every((check) => check(schema, value, root));
}

function isAmong({ type, enum: values, const: only }: Schema, value: JsonValue): boolean {
  const name = value === null ? 'null' : isJsonArray(value) ? 'array' : typeof value;
  const hasType = type === undefined || [type].flat().some((one) => one === name || (one === 'integer' && Number.isInteger(value)));
  const same = (other: unknown): boolean => isJson(other) && canonicalJson(other) === canonicalJson(value);
  return hasType && (values?.some(same) ?? true) && (only === undefined || same(only));
}

function isWithin(schema: Schema, value: JsonValue): boolean {
  if (typeof value !== 'number') return true;
  const { minimum = value, maximum = value, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity, multipleOf = 0 } = schema;
  const isStep = multipleOf === 0 || Number.isInteger(value / multipleOf);
  return [isStep, value >= minimum, value <= maximum, value > exclusiveMinimum, value < exclusiveMaximum].every(Boolean);
}

const FORMATS: Readonly<Record<string, RegExp>> = {
  date: /^\d{4}-\d{2}-\d{2}$/,
  'date-time': /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/,
  time: /^\d{2}:\d{2}:\d{2}(?:Z|[+-]\d{2}:\d{2})$/,
  email: /^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/,
  uri: /^[a-z][a-z\d+.-]*:\/\/[\w.-]+(?::\d+)?(?:[/?#][\w\-.~:/?#[\]@!$&'()*+,;=%]*)?$/i,
  uuid: /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i,
};

function isText({ minLength = 0, maxLength = Infinity, format = '', pattern = '' }: Schema, value: JsonValue): boolean {
  if (typeof value !== 'string') return true;
  const { length } = Array.from(value);
  return length >= minLength && length <= maxLength && hasFormat(format, value) && isLike(pattern, value);
}

/** A format that is not in the table is accepted of no text. */
function hasFormat(format: string, value: string): boolean {
  const isDay = !format.startsWith('date') || !Number.isNaN(Date.parse(value));
  return format === '' || (isDay && (FORMATS[format]?.test(value) ?? false));
}

function isLike(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(value);
  } catch {
    return false;
  }
}

function isList({ items, minItems = 0, maxItems = Infinity, uniqueItems }: Schema, value: JsonValue, root: Schema): boolean {
  if (!isJsonArray(value)) return true;
  if (Array.isArray(items) || value.length < minItems || value.length > maxItems) return false;
  return value.every((item) => accepts(items, item, root)) && (!uniqueItems || new Set(value.map(canonicalJson)).size === value.length);
}

function isRecord({ properties = {}, required = [], additionalProperties }: Schema, value: JsonValue, root: Schema): boolean {
  if (!isJsonObject(value)) return true;
  const nodeOf = (key: string): SchemaNode => (Object.hasOwn(properties, key) ? properties[key] : additionalProperties);
  return (
    required.every((key) => Object.hasOwn(value, key)) && Object.entries(value).every(([key, entry]) => accepts(nodeOf(key), entry, root))
  );
}

function isCombined({ allOf = [], anyOf, oneOf }: Schema, value: JsonValue, root: Schema): boolean {
  const passes = (node: SchemaNode): boolean => accepts(node, value, root);
  return allOf.every(passes) && (anyOf?.some(passes) ?? true) && (oneOf === undefined || oneOf.filter(passes).length === 1);
}
