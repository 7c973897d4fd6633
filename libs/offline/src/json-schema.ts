import type { JsonObject, JsonValue, ToolSpec } from '@toolloop/core';

/** A JSON Schema as a tool carries it. */
export type Schema = ToolSpec['inputSchema'];
export type SchemaNode = Schema | boolean | undefined;

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isJson(value: unknown): value is JsonValue {
  if (Array.isArray(value)) return value.every(isJson);
  if (isObject(value)) return Object.values(value).every(isJson);
  return value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return isObject(value);
}

export function isJsonArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

export function isScalar(value: JsonValue | undefined): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
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
export function resolved(node: SchemaNode, root: Schema, depth = 0): Schema | boolean {
  if (node === undefined || typeof node === 'boolean') return node ?? true;
  if (node.$ref === undefined) return node;
  let found: unknown = node.$ref.startsWith('#') && depth < 8 ? root : undefined;
  for (const part of node.$ref.split('/').slice(1))
    found = isObject(found) ? found[part.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined;
  return isObject(found) ? resolved(found, root, depth + 1) : false;
}

/** A schema's type; of several the first that is not null. */
export function typeOf(schema: Schema): string | undefined {
  const types = [schema.type ?? []].flat();
  const known = types.find((type) => type !== 'null');
  if (known !== undefined || types.length > 0) return known ?? types[0];
  if (schema.properties) return 'object';
  const [first] = schema.enum ?? [schema.const];
  return schema.items !== undefined ? 'array' : first === undefined || first === null ? undefined : typeof first;
}

type Check = (schema: Schema, value: JsonValue, root: Schema) => boolean;

/** Keywords this check does not know; a schema with one of them accepts nothing, so that nothing wrong is ever sent. */
const UNKNOWN_KEYWORDS = ['if', 'patternProperties', 'dependencies', 'contains', 'propertyNames', 'additionalItems'];

/** Whether a value satisfies a schema, so far as this model understands it; in doubt it does not. */
export function accepts(node: SchemaNode, value: JsonValue, root: Schema): boolean {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean') return schema;
  return !UNKNOWN_KEYWORDS.some((keyword) => keyword in schema) && CHECKS.every((check) => check(schema, value, root));
}

const CHECKS: readonly Check[] = [
  ({ type }, value) => type === undefined || [type].flat().some((wanted) => hasType(wanted, value)),
  (schema, value) => {
    const same = (other: unknown): boolean => isJson(other) && canonicalJson(other) === canonicalJson(value);
    return (schema.enum === undefined || schema.enum.some(same)) && (schema.const === undefined || same(schema.const));
  },
  isWithin,
  isText,
  isList,
  isRecord,
  ({ allOf = [], anyOf, oneOf, not }, value, root) => {
    const passes = (node: SchemaNode): boolean => accepts(node, value, root);
    const chosen = (anyOf?.some(passes) ?? true) && (oneOf === undefined || oneOf.filter(passes).length === 1);
    return chosen && allOf.every(passes) && (not === undefined || !passes(not));
  },
];

function hasType(type: string, value: JsonValue): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return isJsonArray(value);
  if (type === 'object') return isJsonObject(value);
  return type === 'integer' ? Number.isInteger(value) : typeof value === type;
}

function isWithin(schema: Schema, value: JsonValue): boolean {
  if (typeof value !== 'number') return true;
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity, multipleOf } = schema;
  const isStep = multipleOf === undefined || Number.isInteger(value / multipleOf);
  return isStep && value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum;
}

const FORMATS: Readonly<Record<string, RegExp>> = {
  date: /^\d{4}-\d{2}-\d{2}$/,
  'date-time': /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/,
  time: /^\d{2}:\d{2}:\d{2}(?:Z|[+-]\d{2}:\d{2})$/,
  email: /^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/,
  uri: /^[a-z][a-z\d+.-]*:\/\/[\w.-]+(?::\d+)?(?:[/?#][\w\-.~:/?#[\]@!$&'()*+,;=%]*)?$/i,
  uuid: /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i,
};
/** Formats this model can neither recognise nor produce. */
const OTHER_FORMATS = new Set(['duration', 'hostname', 'ipv4', 'ipv6', 'iri', 'uri-reference', 'regex', 'json-pointer']);

function isText({ minLength = 0, maxLength = Infinity, format, pattern }: Schema, value: JsonValue): boolean {
  if (typeof value !== 'string') return true;
  const { length } = Array.from(value);
  const isDate = format?.startsWith('date') !== true || !Number.isNaN(Date.parse(value));
  const hasFormat = format === undefined || (isDate && (FORMATS[format]?.test(value) ?? !OTHER_FORMATS.has(format)));
  return length >= minLength && length <= maxLength && hasFormat && (pattern === undefined || isLike(pattern, value));
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
  if (uniqueItems && new Set(value.map(canonicalJson)).size < value.length) return false;
  return value.every((item) => accepts(items, item, root));
}

function isRecord(schema: Schema, value: JsonValue, root: Schema): boolean {
  if (!isJsonObject(value)) return true;
  const { properties = {}, required = [], minProperties = 0, maxProperties = Infinity, additionalProperties } = schema;
  const entries = Object.entries(value);
  if (entries.length < minProperties || entries.length > maxProperties || !required.every((key) => Object.hasOwn(value, key))) return false;
  return entries.every(([key, entry]) => accepts(Object.hasOwn(properties, key) ? properties[key] : additionalProperties, entry, root));
}
