import type { Type } from '@nestjs/common';
import type { JSONSchema7Type } from 'json-schema';
import { canonicalJson } from './canonical-json.js';

/**
 * Returns the values of the property initialisers of a class; undefined when the class cannot be
 * created without arguments.
 */
export function propertyDefaultsOf(type: Type): ReadonlyMap<string, PropertyDefault> | undefined {
  const first = instanceOf(type);
  const second = instanceOf(type);
  if (!first || !second) return undefined;
  const others = new Map(Object.entries(second));
  const given = Object.entries(first).filter(([, value]) => value !== undefined);
  return new Map(
    given.map(([property, value]) => [property, toDefault(value, others.get(property))]),
  );
}

/**
 * The value of a property in a new instance. `json` is absent if JSON cannot express it, or if it
 * differs from instance to instance.
 */
export interface PropertyDefault {
  readonly json?: JSONSchema7Type;
}

const MAX_DEPTH = 16;

/**
 * Makes the default of a property. A value that differs in another instance, such as an id or the
 * time, is left out.
 */
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

/** Tells whether a value is JSON as it is: plain objects, arrays and scalars. */
export function isJson(value: unknown, depth = 0): value is JSONSchema7Type {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth > MAX_DEPTH) return false;
  const plain = Array.isArray(value) || Reflect.getPrototypeOf(value) === Object.prototype;
  return plain && Object.values(value).every((child) => isJson(child, depth + 1));
}
