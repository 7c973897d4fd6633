import { types } from 'node:util';
import type { JsonObject, JsonValue } from '@toolloop/protocol';
import { classOf } from './exposed-properties.js';
import { type ProjectionKey, ProjectionWalk } from './projection-walk.js';

/**
 * Copies values that are JSON already, or nearly, by the rules for every result:
 *
 * - a Date becomes its ISO string; a bigint its decimal digits; a Map an object; a Set an array
 * - NaN, the infinities and dates that are invalid or outside the years 0 to 9999 become null
 * - undefined, functions and symbols are left out, and null in lists, as `JSON.stringify` has it;
 *   the key `__proto__` is left out
 * - instances of classes are the caller's to decide
 */
export class JsonCopy {
  private readonly convert: Conversion = (value, key, walk) => this.value(value, key, walk);

  constructor(private readonly instance: InstanceRule) {}

  value(value: unknown, key: ProjectionKey, walk: ProjectionWalk): JsonValue | undefined {
    if (typeof value !== 'object' || value === null) return scalarToJson(value);
    if (Array.isArray(value)) return convertItems(value, key, walk, this.convert);
    if (isPlain(value)) return this.plain(value, key, walk);
    if (types.isDate(value)) return dateToJson(value);
    if (types.isMap(value)) return convertEntries(value, key, walk, this.convert);
    if (types.isSet(value)) return convertIterable(value, key, walk, this.convert);
    return this.instance(value, key, walk);
  }

  private plain(
    source: Readonly<Record<string, unknown>>,
    key: ProjectionKey,
    walk: ProjectionWalk,
  ): JsonObject {
    walk.enterOpen(source, key);
    const copy: Record<string, JsonValue> = {};
    for (const name of Object.keys(source)) {
      if (name === '__proto__') continue;
      const json = this.value(walk.read(source, name), name, walk);
      if (json !== undefined) copy[name] = json;
    }
    walk.leave();
    return copy;
  }
}

/** Converts an instance of a class within JSON. */
export type InstanceRule = (
  instance: object,
  key: ProjectionKey,
  walk: ProjectionWalk,
) => JsonValue;

/** Turns one value into JSON; undefined means that it has none and is left out. */
export type Conversion = (
  value: unknown,
  key: ProjectionKey,
  walk: ProjectionWalk,
) => JsonValue | undefined;

/** Converts a scalar; undefined for undefined, functions, symbols and objects. */
export function scalarToJson(value: unknown): string | number | boolean | null | undefined {
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'bigint') return String(value);
  return value === null ? null : undefined;
}

/**
 * Writes a date; null if its year does not have the four digits of RFC 3339 and the schema's
 * `date-time`.
 */
export function dateToJson(date: Date): string | null {
  const time = Date.prototype.getTime.call(date);
  if (Number.isNaN(time)) return null;
  const text = Date.prototype.toISOString.call(date);
  return text.length === '2026-11-21T00:00:00.000Z'.length ? text : null;
}

/**
 * Returns the scalar that a class such as Decimal, ObjectId or URL has as its JSON; undefined for
 * every other object.
 */
export function scalarOfInstance(
  instance: object,
  key: ProjectionKey,
  walk: ProjectionWalk,
): string | number | boolean | null | undefined {
  if (types.isDate(instance)) return dateToJson(instance);
  if (isPlain(instance)) return undefined;
  return walk.attempt(key, 'in its toJSON()', () => {
    if (!('toJSON' in instance) || typeof instance.toJSON !== 'function') return undefined;
    const json: unknown = Reflect.apply(instance.toJSON, instance, []);
    return scalarToJson(json);
  });
}

export function convertItems(
  items: readonly unknown[],
  key: ProjectionKey,
  walk: ProjectionWalk,
  convert: Conversion,
): JsonValue[] {
  walk.enter(items, key);
  const copy: JsonValue[] = [];
  for (let index = 0; index < items.length; index += 1) {
    walk.count(index);
    copy.push(convert(items[index], index, walk) ?? null);
  }
  walk.leave();
  return copy;
}

/** Converts an iterable like an array; an endless one ends in an error. */
export function convertIterable(
  iterable: Iterable<unknown>,
  key: ProjectionKey,
  walk: ProjectionWalk,
  convert: Conversion,
): JsonValue[] {
  walk.enter(iterable, key);
  const items = walk.attempt(undefined, 'while it was iterated', () => {
    const found: unknown[] = [];
    for (const item of iterable) {
      walk.count(found.length);
      found.push(item);
    }
    return found;
  });
  const copy = items.map((item, index) => convert(item, index, walk) ?? null);
  walk.leave();
  return copy;
}

/** Converts a Map. Its keys are usually data, so errors do not name them. */
export function convertEntries(
  map: ReadonlyMap<unknown, unknown>,
  key: ProjectionKey,
  walk: ProjectionWalk,
  convert: Conversion,
): JsonObject {
  walk.enter(map, key);
  const copy: Record<string, JsonValue> = {};
  for (const [name, value] of Map.prototype.entries.call(map)) {
    walk.count('*');
    if (typeof name !== 'string' && typeof name !== 'number') {
      throw walk.refuse(
        '*',
        `is in a Map under a key that is a ${typeof name}`,
        'Use strings as keys.',
      );
    }
    const json = name === '__proto__' ? undefined : convert(value, '*', walk);
    if (json !== undefined) copy[name] = json;
  }
  walk.leave();
  return copy;
}

/** Tells whether an object has no class, in this realm or another. */
export function isPlain(value: object): value is Readonly<Record<string, unknown>> {
  const prototype = Reflect.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return true;
  return Reflect.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf');
}

/**
 * Finds the reason why an object cannot be in a result until it is awaited, read or encoded;
 * undefined if it can.
 */
export function findUnready(
  value: object,
): { readonly problem: string; readonly remedy: string } | undefined {
  if (types.isPromise(value) || hasMethod(value, 'then')) {
    return {
      problem: 'is a Promise',
      remedy: 'Await it first, a list of them with Promise.all().',
    };
  }
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value) || value instanceof Blob) {
    return {
      problem: 'is binary data',
      remedy: 'Return its text, a base64 string, or a link to it.',
    };
  }
  if (value instanceof Error) return { problem: 'is an Error', remedy: 'Throw it.' };
  if (
    ['pipe', 'getReader', 'getStream'].some((name) => hasMethod(value, name)) ||
    Symbol.asyncIterator in value
  ) {
    return {
      problem: 'is a stream',
      remedy: 'Read it first and return its text, or return a link to it.',
    };
  }
  return undefined;
}

function hasMethod(value: object, name: string): boolean {
  return name in value && typeof Reflect.get(value, name) === 'function';
}

export function nameOfClass(instance: object): string {
  return classOf(instance)?.name || 'an unnamed class';
}
