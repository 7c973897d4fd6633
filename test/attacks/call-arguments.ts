import type { JsonObject, JsonValue } from '@toolloop/core';

/** A place in an earlier result. */
export interface Reference {
  readonly result: string;
  readonly path: readonly string[];
}

const REFERENCE = /\{\{([^{}]+)\}\}/g;

/** Every earlier result that arguments speak of, at any depth. */
export function referencesIn(args: JsonValue): Reference[] {
  return [...JSON.stringify(args).matchAll(REFERENCE)].map(([, reference = '']) =>
    toReference(reference),
  );
}

/**
 * Arguments with the values of earlier results in them; undefined where one of those is not there,
 * as of a call that was refused.
 */
export function resolveArguments(
  args: JsonObject,
  results: ReadonlyMap<string, JsonValue>,
): JsonObject | undefined {
  if (referencesIn(args).some((reference) => valueAt(reference, results) === undefined))
    return undefined;
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [name, resolved(value, results)]),
  );
}

function resolved(value: JsonValue, results: ReadonlyMap<string, JsonValue>): JsonValue {
  if (typeof value === 'string') return resolvedText(value, results);
  if (isList(value)) return value.map((item) => resolved(item, results));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, resolved(item, results)]),
  );
}

function resolvedText(text: string, results: ReadonlyMap<string, JsonValue>): JsonValue {
  const whole = /^\{\{([^{}]+)\}\}$/.exec(text)?.[1];
  if (whole !== undefined) return valueAt(toReference(whole), results) ?? null;
  return text.replace(REFERENCE, (_, reference: string) => {
    const value = valueAt(toReference(reference), results) ?? null;
    return typeof value === 'string' ? value : JSON.stringify(value);
  });
}

function toReference(reference: string): Reference {
  const [result = '', ...path] = reference.split('/');
  return { result, path };
}

function valueAt(
  { result, path }: Reference,
  results: ReadonlyMap<string, JsonValue>,
): JsonValue | undefined {
  let value = results.get(result);
  for (const part of path) {
    if (isList(value)) value = value[Number(part)];
    else value = isObject(value) && Object.hasOwn(value, part) ? value[part] : undefined;
  }
  return value;
}

export function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
