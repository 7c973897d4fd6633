import { types } from 'node:util';
import { type Audience, isObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { ProjectionObserver, ResultProjector } from '../contracts/tool.js';
import { classOf, hiddenPropertiesOf } from './exposed-properties.js';

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

const PICK_REMEDY = "Say `reveal: 'all'`, or return an object.";

const everything = new JsonCopy((instance, key, walk) => {
  const unready = findUnready(instance);
  if (unready) throw walk.refuse(key, unready.problem, unready.remedy);
  const scalar = scalarOfInstance(instance, key, walk);
  if (scalar !== undefined) return scalar;
  const name = nameOfClass(instance);
  const remedy = `Declare \`output: ${name}\` and put @Expose() on what may be shown, or return a plain object.`;
  throw walk.refuse(key, `is an instance of ${name}, and reveal is for plain objects`, remedy);
});

/**
 * Compiles the projection of a tool that returns scalars and plain objects: `'all'`, the named
 * properties, or with `[]` nothing.
 *
 * Names pick from a plain object, from a class instance (own properties, and getters) and from each
 * object of a list. The value of a picked property is copied as by `'all'`. Every audience sees the
 * same, except for properties that the class of an instance hides by `@Exclude()` or groups.
 */
export function compileReveal(fields: 'all' | readonly string[]): ResultProjector {
  if (fields !== 'all' && fields.length === 0) return { project: () => null };
  const names =
    fields === 'all' ? undefined : new Set(fields.filter((field) => field !== '__proto__'));
  const convert: Conversion = names
    ? (value, key, walk) => pick(value, key, walk, names)
    : (value, key, walk) => everything.value(value, key, walk);
  return {
    project(value, audience, shown) {
      const walk = new ProjectionWalk('the result', audience, shown);
      try {
        return convert(value, undefined, walk) ?? null;
      } catch (cause) {
        throw walk.failure(cause);
      }
    },
  };
}

const ALL = compileReveal('all');

/**
 * Converts a value for a model as `reveal: 'all'` does.
 *
 * @throws ProjectionError for a value that is neither a scalar nor a plain object, at any depth
 */
export function toResultJson(value: unknown): JsonValue {
  return ALL.project(value, 'model');
}

function pick(
  value: unknown,
  key: ProjectionKey,
  walk: ProjectionWalk,
  names: ReadonlySet<string>,
): JsonValue {
  if (value === null || value === undefined) return null;
  if (Array.isArray(value))
    return convertItems(value, key, walk, (item, index) => pick(item, index, walk, names));
  if (!isObject(value))
    throw walk.refuse(key, `is a ${typeof value}, which has no fields to pick`, PICK_REMEDY);
  const unready = findUnready(value);
  if (unready) throw walk.refuse(key, unready.problem, unready.remedy);
  if (isBuiltIn(value))
    throw walk.refuse(key, `is a ${nameOfClass(value)}, which has no fields to pick`, PICK_REMEDY);
  return pickFields(value, key, walk, names);
}

function pickFields(
  value: Readonly<Record<string, unknown>>,
  key: ProjectionKey,
  walk: ProjectionWalk,
  names: ReadonlySet<string>,
): JsonObject {
  walk.enter(value, key);
  const picked: Record<string, JsonValue> = {};
  const hidden = hiddenIn(value, walk.audience);
  for (const name of names) {
    const json =
      !hidden?.has(name) && isField(value, name)
        ? everything.value(walk.read(value, name), name, walk)
        : undefined;
    if (json !== undefined) picked[name] = json;
  }
  walk.leave();
  walk.show(value, picked);
  return picked;
}

const hiddenByClass = new WeakMap<object, Readonly<Record<Audience, ReadonlySet<string>>>>();

/**
 * Returns the properties that the class of an instance hides from an audience, computed once per
 * class.
 */
function hiddenIn(value: object, audience: Audience): ReadonlySet<string> | undefined {
  const type = isPlain(value) ? undefined : classOf(value);
  if (!type) return undefined;
  const known = hiddenByClass.get(type);
  if (known) return known[audience];
  const of = (one: Audience): ReadonlySet<string> => hiddenPropertiesOf(type, one);
  const hidden = { model: of('model'), ui: of('ui'), audit: of('audit') };
  hiddenByClass.set(type, hidden);
  return hidden[audience];
}

function isBuiltIn(value: object): boolean {
  return types.isDate(value) || types.isMap(value) || types.isSet(value);
}

/** Tells whether a name is an own enumerable property, or a getter of the class. */
function isField(source: object, name: string): boolean {
  const own = Reflect.getOwnPropertyDescriptor(source, name);
  if (own) return own.enumerable === true;
  for (
    let level = Reflect.getPrototypeOf(source);
    level && level !== Object.prototype;
    level = Reflect.getPrototypeOf(level)
  ) {
    const descriptor = Reflect.getOwnPropertyDescriptor(level, name);
    if (descriptor) return descriptor.get !== undefined;
  }
  return false;
}

const MAX_DEPTH = 64;
const MAX_VALUES = 100_000;

/**
 * Thrown when a tool returned a value that its declaration does not cover: nothing of the result
 * leaves, and the message tells the developer where it is and what to do.
 *
 * The message is for logs. It names classes and properties, never a value; an error of a getter is
 * in `cause` only.
 */
export class ProjectionError extends Error {
  override readonly name = 'ProjectionError';
  /**
   * The path with `*` for the keys of plain objects, which may be data, so it may be shown where
   * the result may not.
   */
  readonly declaredPath: string;

  constructor(
    /** The declared class, or `the result`. */
    readonly subject: string,
    /**
     * The path from the result to the value, e.g. `orders.0.customer`; empty for the result itself,
     * `*` for a Map's entry.
     */
    readonly path: string,
    problem: string,
    remedy: string,
    options: { readonly cause?: unknown; readonly declaredPath?: string } = {},
  ) {
    super(
      `Cannot project ${path === '' ? subject : `"${path}" of ${subject}`}: it ${problem}. ${remedy}`,
      options,
    );
    this.declaredPath = options.declaredPath ?? path;
  }
}

/** The key of a value in its holder; undefined for the result itself. */
export type ProjectionKey = string | number | undefined;

/**
 * The path from a result's root to the value being projected, so that every refusal can name the
 * place, and so that cycles, endless nesting and endless iterables end in a `ProjectionError`
 * instead of a full stack or heap. One per projection.
 */
export class ProjectionWalk {
  private readonly within: object[] = [];
  private readonly keys: ProjectionKey[] = [];
  /** The entered objects whose keys are data. */
  private readonly open = new WeakSet<object>();
  private values = 0;
  /** True once the model and the ui see some object of it otherwise, or that cannot be told. */
  isForOneReader = false;

  constructor(
    private readonly subject: string,
    readonly audience: Audience,
    private readonly observer?: ProjectionObserver,
  ) {}

  /** Reports that the projection of an instance is complete. */
  show(source: object, json: Record<string, JsonValue>): void {
    this.observer?.(source, json);
  }

  enter(value: object, key: ProjectionKey): void {
    this.count(key);
    if (this.within.length >= MAX_DEPTH) {
      throw this.refuse(
        key,
        `lies more than ${MAX_DEPTH} levels deep`,
        'Return something flatter.',
      );
    }
    if (this.within.includes(value)) {
      throw this.refuse(
        key,
        'is an object that it is itself a part of',
        'Leave one direction without @Expose(), or expose an id instead.',
      );
    }
    this.within.push(value);
    this.keys.push(key);
  }

  /** Enters an object without declared properties. */
  enterOpen(value: object, key: ProjectionKey): void {
    this.enter(value, key);
    this.open.add(value);
  }

  leave(): void {
    this.within.pop();
    this.keys.pop();
  }

  /** Called for every object and every item of a list. */
  count(key: ProjectionKey): void {
    this.values += 1;
    if (this.values > MAX_VALUES)
      throw this.refuse(
        key,
        `is past the ${MAX_VALUES} values a result may hold`,
        'Return a page of them.',
      );
  }

  /** Reads a property of the object entered last; a getter may throw. */
  read(source: Readonly<Record<string, unknown>>, property: string): unknown {
    try {
      return source[property];
    } catch (cause) {
      throw this.refuse(property, 'threw when it was read', 'See the cause.', cause);
    }
  }

  /** Runs code of the application. */
  attempt<Value>(key: ProjectionKey, what: string, act: () => Value): Value {
    try {
      return act();
    } catch (cause) {
      if (cause instanceof ProjectionError) throw cause;
      throw this.refuse(key, `threw ${what}`, 'See the cause.', cause);
    }
  }

  refuse(key: ProjectionKey, problem: string, remedy: string, cause?: unknown): ProjectionError {
    const parts = [...this.keys, key];
    const declared = parts.map((part, depth) =>
      this.isData(depth) && part !== undefined ? '*' : part,
    );
    const declaredPath = pathOf(declared);
    return new ProjectionError(this.subject, pathOf(parts), problem, remedy, {
      declaredPath,
      ...(cause !== undefined && { cause }),
    });
  }

  /** Tells whether the key at this depth belongs to an object whose keys are data. */
  private isData(depth: number): boolean {
    const holder = this.within[depth - 1];
    return holder !== undefined && this.open.has(holder);
  }

  /** Makes the error to throw for one that was caught at the root. */
  failure(cause: unknown): ProjectionError {
    if (cause instanceof ProjectionError) return cause;
    return new ProjectionError(this.subject, '', 'threw while it was read', 'See the cause.', {
      cause,
    });
  }
}

function pathOf(parts: readonly ProjectionKey[]): string {
  return parts.filter((part) => part !== undefined).join('.');
}
