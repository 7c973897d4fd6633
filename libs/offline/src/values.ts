import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import { wordsOf } from './words.js';

export function isScalar(value: JsonValue | undefined): value is string | number | boolean {
  return value !== undefined && value !== null && typeof value !== 'object';
}

function isJson(value: unknown): value is JsonValue {
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isJson);
  return value === null || ['string', 'boolean', 'number'].includes(typeof value);
}

export function parseJson(text: string): JsonValue | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJson(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function plainText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** An object's properties without the framework's own, which begin with an underscore. */
export function ownEntries(value: JsonObject): [string, JsonValue][] {
  return Object.entries(value).filter(([key]) => !key.startsWith('_'));
}

/** A value and every value inside it by its key, outer ones before inner ones. */
export function valuesIn(value: JsonValue, key = ''): [key: string, value: JsonValue][] {
  const items = isJsonList(value)
    ? value.map((item) => ['', item] as const)
    : isJsonObject(value)
      ? ownEntries(value)
      : [];
  return [[key, value], ...items.flatMap(([name, item]) => valuesIn(item, name))];
}

export function textsIn(value: JsonValue): string[] {
  return valuesIn(value).flatMap(([, one]) => (isScalar(one) ? String(one) : []));
}

export function scalarsOf(data: JsonObject): [string, string | number | boolean][] {
  return ownEntries(data).flatMap(([key, value]) => (isScalar(value) ? [[key, value]] : []));
}

const ID_KEYS = new Set([
  'id',
  'key',
  'code',
  'sku',
  'number',
  'no',
  'ref',
  'reference',
  'uuid',
  'isbn',
  'slug',
  'handle',
]);

export function isIdKey(key: string): boolean {
  return ID_KEYS.has(wordsOf(key).at(-1) ?? '');
}

export function idsOf(data: JsonObject): string[] {
  const ids = scalarsOf(data).filter(([key]) => isIdKey(key));
  return ids
    .toSorted(([one], [other]) => Number(other === 'id') - Number(one === 'id'))
    .map(([, value]) => String(value));
}

export function labelOf(data: JsonObject): string | undefined {
  const texts = ['name', 'fullName', 'displayName', 'title', 'label', 'subject'].map(
    (key) => data[key],
  );
  return texts.find((text): text is string => typeof text === 'string' && text !== '');
}

/** An object as a person can tell it from others: "Walnut desk (p-100)". */
export function nameOf(data: JsonObject): string | undefined {
  const [label, [id]] = [labelOf(data), idsOf(data)];
  return label !== undefined && id !== undefined && label !== id
    ? `${label} (${id})`
    : (label ?? id);
}

/** The list a result is about: itself, or the one list of a page. */
export function listOf(value: JsonValue): readonly JsonValue[] | undefined {
  if (!isJsonObject(value)) return isJsonList(value) ? value : undefined;
  const entries = ownEntries(value).map(([, entry]) => entry);
  const lists = entries.filter(isJsonList);
  return lists.length === 1 &&
    entries.every((entry) => typeof entry !== 'string' && !isJsonObject(entry))
    ? lists[0]
    : undefined;
}

export function isEmptyResult(value: JsonValue): boolean {
  const length =
    listOf(value)?.length ?? (isJsonObject(value) ? ownEntries(value).length : undefined);
  return length === 0 || value === null || value === '';
}
