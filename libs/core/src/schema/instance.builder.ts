import type { Type } from '@nestjs/common';
import { plainToInstance, type ClassTransformOptions } from 'class-transformer';
import { INPUT_GROUPS, inputPropertyOf, type ValueType } from './input-properties.accessor.js';
import { validationRulesOf } from './validation-metadata.accessor.js';

type Convert = (value: unknown) => unknown;

/** `exposeDefaultValues`, or an absent `@Expose()` property would lose its initial value. */
const OPTIONS: ClassTransformOptions = {
  groups: [...INPUT_GROUPS],
  enableImplicitConversion: false,
  exposeDefaultValues: true,
  exposeUnsetFields: false,
};

/**
 * Makes instances of a DTO as `plainToInstance` would, from metadata that is read once: `plainToInstance` reads it for every call, which costs more than the
 * whole pipeline may. A DTO with a `@Transform()` is left to it all the same. Properties nobody declared are not taken over.
 */
export function instanceBuilder(type: Type): Convert {
  const classes = new Map<Type, ReadonlyMap<string, Convert>>();
  if (collect(type, classes)) return (args) => instanceOf(type, classes, args);
  return (args) => {
    const instance: unknown = plainToInstance(type, plainCopy(args), OPTIONS);
    return instance;
  };
}

/** Reads the metadata of a class and of all it holds; false when only class-transformer can make it. */
function collect(type: Type, classes: Map<Type, ReadonlyMap<string, Convert>>): boolean {
  const converters = new Map<string, Convert>();
  classes.set(type, converters);
  const names = new Set(validationRulesOf(type).map(({ property }) => property));
  return [...names].every((name) => {
    const { valueType, transformed } = inputPropertyOf(type, name);
    converters.set(name, converterFor(valueType, classes));
    const nested = valueType.kind === 'class' && !classes.has(valueType.type) ? collect(valueType.type, classes) : true;
    return nested && !transformed;
  });
}

function converterFor(valueType: ValueType, classes: ReadonlyMap<Type, ReadonlyMap<string, Convert>>): Convert {
  switch (valueType.kind) {
    case 'class':
      return eachOf((value) => instanceOf(valueType.type, classes, value));
    case 'date':
      return eachOf((value) => new Date(typeof value === 'number' ? value : String(value)));
    case 'scalar':
      return eachOf(SCALARS[valueType.scalar]);
    case 'unknown':
    case 'unsupported':
  }
  return plainCopy;
}

const SCALARS = { string: String, number: Number, boolean: Boolean } as const;

/** `@Type()` speaks of the items of an array, at any depth; null stays null. */
function eachOf(convert: Convert): Convert {
  return function each(value): unknown {
    if (Array.isArray(value)) return value.map(each);
    return value === null || value === undefined ? value : convert(value);
  };
}

function instanceOf(type: Type, classes: ReadonlyMap<Type, ReadonlyMap<string, Convert>>, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const instance: unknown = new type();
  if (typeof instance !== 'object' || instance === null) return instance;
  const converters = classes.get(type);
  for (const [key, child] of Object.entries(value)) {
    const convert = converters?.get(key);
    if (convert) Reflect.set(instance, key, convert(child));
  }
  return instance;
}

/** As class-transformer copies: without names that every object has, of which it would take `constructor` for a class, and call it. */
function plainCopy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainCopy);
  if (typeof value !== 'object' || value === null) return value;
  const entries: [string, unknown][] = Object.entries(value);
  const safe = entries.filter(([key]) => !(key in Object.prototype));
  return Object.fromEntries(safe.map(([key, child]) => [key, plainCopy(child)]));
}
