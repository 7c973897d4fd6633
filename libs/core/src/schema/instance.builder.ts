import type { Type } from '@nestjs/common';
import { plainToInstance, type ClassTransformOptions } from 'class-transformer';
import { DtoClasses } from './dto.classes.js';
import { INPUT_GROUPS, type ValueType } from './input-properties.accessor.js';

type Convert = (value: unknown) => unknown;

/** By class, then by property. */
type Converters = Map<Type, ReadonlyMap<string, Convert>>;

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
export function instanceBuilder(type: Type, classes = new DtoClasses()): Convert {
  const converters: Converters = new Map();
  if (collect(type, classes, converters)) return (args) => instanceOf(type, converters, args);
  return (args) => {
    const instance: unknown = plainToInstance(type, plainCopy(args), OPTIONS);
    return instance;
  };
}

/** Makes the converters of a class and of all it holds; false when only class-transformer can make it. */
function collect(type: Type, classes: DtoClasses, converters: Converters): boolean {
  const own = new Map<string, Convert>();
  converters.set(type, own);
  return classes.of(type).properties.every(({ name, input: { valueType, transformed } }) => {
    own.set(name, converterFor(valueType, converters));
    const nested = valueType.kind === 'class' && !converters.has(valueType.type) ? collect(valueType.type, classes, converters) : true;
    return nested && !transformed;
  });
}

function converterFor(valueType: ValueType, converters: Converters): Convert {
  switch (valueType.kind) {
    case 'class':
      return eachOf((value) => instanceOf(valueType.type, converters, value));
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

function instanceOf(type: Type, converters: Converters, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const instance: unknown = new type();
  if (typeof instance !== 'object' || instance === null) return instance;
  const own = converters.get(type);
  for (const [key, child] of Object.entries(value)) {
    const convert = own?.get(key);
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
