import type { Type } from '@nestjs/common';
import type { ArgumentProblem } from '@toolloop/protocol';
import type { ClassTransformOptions } from 'class-transformer';
import type { ValidationError } from 'class-validator';
import { classTransformer, classValidator } from '../findings/late-packages.js';
import { pointerSegment } from './argument-problems.js';
import { DtoClasses } from './dto-schema.js';
import { INPUT_GROUPS, type ValueType } from './input-properties.js';

/**
 * Returns a function that makes instances of a DTO as `plainToInstance` would, from metadata that
 * is read once: `plainToInstance` reads it for every call, which costs more than the whole pipeline
 * may. A DTO with a `@Transform()` is left to it all the same. Undeclared properties are dropped.
 */
export function instanceBuilder(type: Type, classes = new DtoClasses()): Convert {
  const converters: Converters = new Map();
  if (collect(type, classes, converters)) return (args) => instanceOf(type, converters, args);
  return (args): unknown => classTransformer().plainToInstance(type, plainCopy(args), OPTIONS);
}

/**
 * The options of class-transformer. Without `exposeDefaultValues` an absent `@Expose()` property
 * would lose its initial value.
 */
const OPTIONS: ClassTransformOptions = {
  groups: [...INPUT_GROUPS],
  enableImplicitConversion: false,
  exposeDefaultValues: true,
  exposeUnsetFields: false,
};

type Convert = (value: unknown) => unknown;

/** The converters by class, then by property. */
type Converters = Map<Type, ReadonlyMap<string, Convert>>;

/**
 * Makes the converters of a class and of those it holds; false when only class-transformer can
 * convert it.
 */
function collect(type: Type, classes: DtoClasses, converters: Converters): boolean {
  const own = new Map<string, Convert>();
  converters.set(type, own);
  return classes.of(type).properties.every(({ name, input: { valueType, transformed } }) => {
    own.set(name, converterFor(valueType, converters));
    const nested =
      valueType.kind === 'class' && !converters.has(valueType.type)
        ? collect(valueType.type, classes, converters)
        : true;
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

/**
 * Applies a conversion to the items of an array, at any depth, which is what `@Type()` refers to;
 * null stays null.
 */
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

/**
 * Copies a value as class-transformer does, without names that every object has: it would take
 * `constructor` for a class, and call it.
 */
function plainCopy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainCopy);
  if (typeof value !== 'object' || value === null) return value;
  const entries: [string, unknown][] = Object.entries(value);
  const safe = entries.filter(([key]) => !(key in Object.prototype));
  return Object.fromEntries(safe.map(([key, child]) => [key, plainCopy(child)]));
}

const MAX_PROBLEMS = 10;

/**
 * Validates an instance by class-validator, for rules that a schema cannot express; returns at most
 * ten problems. Nothing is stripped: the schema has refused unknown arguments already, and a DTO
 * may hold fields of its own.
 */
export async function instanceProblems(instance: unknown): Promise<readonly ArgumentProblem[]> {
  if (typeof instance !== 'object' || instance === null)
    return [{ pointer: '', message: 'must be an object' }];
  const errors = await classValidator().validate(instance, {
    forbidUnknownValues: true,
    validationError: { target: false, value: false },
  });
  return errors.flatMap((error) => problemsOf(error, '')).slice(0, MAX_PROBLEMS);
}

function problemsOf(
  { property, constraints, children }: ValidationError,
  parent: string,
): ArgumentProblem[] {
  const pointer = parent + (property === undefined ? '' : pointerSegment(property));
  const own = Object.values(constraints ?? {}).map((message) => ({ pointer, message }));
  return [...own, ...(children ?? []).flatMap((child) => problemsOf(child, pointer))];
}
