import type { JsonObject, JsonValue } from '@toolloop/core';
import { canonicalJson, isJson, isJsonArray, isJsonObject, isObject, type Schema } from './json.js';

type Node = Schema | boolean;
type Check = (schema: Schema, value: JsonValue, root: Schema) => boolean;

/** Keywords this check does not know; a schema with one of them accepts nothing, so that nothing wrong is ever sent. */
const UNKNOWN_KEYWORDS = ['if', 'patternProperties', 'dependencies', 'contains', 'propertyNames', 'additionalItems'];

/** Whether a value satisfies a schema, so far as this model understands it; when in doubt it does not. */
export function accepts(node: Node | undefined, value: JsonValue, root: Schema): boolean {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean') return schema;
  if (UNKNOWN_KEYWORDS.some((keyword) => keyword in schema)) return false;
  return CHECKS.every((check) => check(schema, value, root));
}

/** The schema a local `$ref` leads to; `false` when it leads nowhere. */
export function resolved(node: Node | undefined, root: Schema, depth = 0): Node {
  if (node === undefined || typeof node === 'boolean') return node ?? true;
  if (node.$ref === undefined) return node;
  const target = depth < 8 ? pointed(node.$ref, root) : undefined;
  return target === undefined ? false : resolved(target, root, depth + 1);
}

function pointed(ref: string, root: Schema): Schema | undefined {
  if (ref === '#') return root;
  if (!ref.startsWith('#/')) return undefined;
  let found: unknown = root;
  for (const part of ref.slice(2).split('/')) found = isObject(found) ? found[part.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined;
  return isObject(found) ? found : undefined;
}

/** A schema's type; of several the first that is not null. */
export function typeOf(schema: Schema): string | undefined {
  const types = [schema.type ?? []].flat();
  const known = types.find((type) => type !== 'null');
  if (known !== undefined) return known;
  if (schema.properties) return 'object';
  return types[0] ?? (schema.items === undefined ? enumType(schema) : 'array');
}

function enumType(schema: Schema): string | undefined {
  const [first] = schema.enum ?? [schema.const];
  return first === undefined || first === null ? undefined : typeof first;
}

const CHECKS: readonly Check[] = [isOfType, isAmong, isWithin, isText, isList, isRecord, isCombined];

function isOfType({ type }: Schema, value: JsonValue): boolean {
  return type === undefined || [type].flat().some((wanted) => hasType(wanted, value));
}

function hasType(type: string, value: JsonValue): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return isJsonArray(value);
    case 'object':
      return isJsonObject(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function isAmong(schema: Schema, value: JsonValue): boolean {
  const same = (other: unknown): boolean => isJson(other) && canonicalJson(other) === canonicalJson(value);
  return (schema.enum === undefined || schema.enum.some(same)) && (schema.const === undefined || same(schema.const));
}

function isWithin(schema: Schema, value: JsonValue): boolean {
  if (typeof value !== 'number') return true;
  const { minimum = -Infinity, maximum = Infinity, multipleOf } = schema;
  const isStep = multipleOf === undefined || Number.isInteger(value / multipleOf);
  return value >= minimum && value <= maximum && isStep && isBetween(schema, value);
}

function isBetween({ exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity }: Schema, value: number): boolean {
  return value > exclusiveMinimum && value < exclusiveMaximum;
}

const FORMATS: ReadonlyMap<string, RegExp> = new Map(
  Object.entries({
    date: /^\d{4}-\d{2}-\d{2}$/,
    'date-time': /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/,
    email: /^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$/,
    uri: /^[a-z][a-z\d+.-]*:\/\/[\w.-]+(?::\d+)?(?:[/?#][\w\-.~:/?#[\]@!$&'()*+,;=%]*)?$/i,
    uuid: /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i,
  }),
);

/** Formats this model can neither recognise nor produce; a text that needs one is left to others. */
const OTHER_FORMATS = new Set(['time', 'duration', 'hostname', 'ipv4', 'ipv6', 'iri', 'uri-reference', 'regex', 'json-pointer']);

function isText(schema: Schema, value: JsonValue): boolean {
  if (typeof value !== 'string') return true;
  const { minLength = 0, maxLength = Infinity, format, pattern } = schema;
  const length = Array.from(value).length;
  const fits = length >= minLength && length <= maxLength && (format === undefined || hasFormat(format, value));
  return fits && (pattern === undefined || isLike(pattern, value));
}

function hasFormat(format: string, value: string): boolean {
  if (format.startsWith('date') && Number.isNaN(Date.parse(value))) return false;
  if (format === 'time') return /^\d{2}:\d{2}:\d{2}(?:Z|[+-]\d{2}:\d{2})$/.test(value);
  return FORMATS.get(format)?.test(value) ?? !OTHER_FORMATS.has(format);
}

function isLike(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(value);
  } catch {
    return false;
  }
}

function isList(schema: Schema, value: JsonValue, root: Schema): boolean {
  if (!isJsonArray(value)) return true;
  if (value.length < (schema.minItems ?? 0) || value.length > (schema.maxItems ?? Infinity)) return false;
  if (schema.uniqueItems && new Set(value.map(canonicalJson)).size < value.length) return false;
  const { items } = schema;
  return Array.isArray(items) ? false : value.every((item) => accepts(items, item, root));
}

function isRecord(schema: Schema, value: JsonValue, root: Schema): boolean {
  if (!isJsonObject(value)) return true;
  const keys = Object.keys(value);
  if (keys.length < (schema.minProperties ?? 0) || keys.length > (schema.maxProperties ?? Infinity)) return false;
  return (
    (schema.required ?? []).every((key) => Object.hasOwn(value, key)) && keys.every((key) => acceptsProperty(schema, key, value, root))
  );
}

function acceptsProperty(schema: Schema, key: string, value: JsonObject, root: Schema): boolean {
  const known = schema.properties && Object.hasOwn(schema.properties, key) ? schema.properties[key] : undefined;
  return accepts(known ?? schema.additionalProperties, value[key] ?? null, root);
}

function isCombined(schema: Schema, value: JsonValue, root: Schema): boolean {
  const passes = (node: Node): boolean => accepts(node, value, root);
  if (schema.allOf && !schema.allOf.every(passes)) return false;
  if (schema.anyOf && !schema.anyOf.some(passes)) return false;
  if (schema.oneOf && schema.oneOf.filter(passes).length !== 1) return false;
  return schema.not === undefined || !passes(schema.not);
}
