import type { Type } from '@nestjs/common';
import type { JSONSchema7Type } from 'json-schema';
import { canonicalJson } from './canonical-json.js';

/** What a property holds in a new instance. `json` is absent where JSON cannot say it, or where it differs from instance to instance. */
export interface PropertyDefault {
  readonly json?: JSONSchema7Type;
}

const MAX_DEPTH = 16;

/** What the property initialisers of a class give, by property; undefined when the class cannot be made without arguments. */
export function propertyDefaultsOf(type: Type): ReadonlyMap<string, PropertyDefault> | undefined {
  const first = instanceOf(type);
  const second = instanceOf(type);
  if (!first || !second) return undefined;
  const others = new Map(Object.entries(second));
  const given = Object.entries(first).filter(([, value]) => value !== undefined);
  return new Map(given.map(([property, value]) => [property, toDefault(value, others.get(property))]));
}

/** A value that is another in the next instance, such as an id or the time, is no part of a schema. */
function toDefault(value: unknown, other: unknown): PropertyDefault {
  if (!isJson(value) || !isJson(other) || canonicalJson(value) !== canonicalJson(other)) return {};
  return { json: value };
}

function instanceOf(type: Type): object | undefined {
  try {
    const instance: unknown = new type();
    return typeof instance === 'object' && instance !== null ? instance : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a value is JSON as it stands: plain objects, arrays and scalars. */
export function isJson(value: unknown, depth = 0): value is JSONSchema7Type {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth > MAX_DEPTH) return false;
  const plain = Array.isArray(value) || Reflect.getPrototypeOf(value) === Object.prototype;
  return plain && Object.values(value).every((child) => isJson(child, depth + 1));
}
