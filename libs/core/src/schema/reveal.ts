import { types } from 'node:util';
import { type Audience, isObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { ResultProjector } from '../contracts/result-projector.js';
import { classOf, hiddenPropertiesOf } from './exposed-properties.js';
import {
  type Conversion,
  convertItems,
  findUnready,
  isPlain,
  JsonCopy,
  nameOfClass,
  scalarOfInstance,
} from './json-copy.js';
import { type ProjectionKey, ProjectionWalk } from './projection-walk.js';

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
