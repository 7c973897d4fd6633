import type { Type } from '@nestjs/common';
import type { Audience } from '@toolloop/protocol';
import type { TransformationType } from 'class-transformer';
import type { TypeMetadata } from 'class-transformer/types/interfaces/index.js';
import { Secret } from '../contracts/secret.js';
import {
  CLASS_TO_PLAIN,
  PLAIN_TO_CLASS,
  transformMetadata,
} from '../findings/transform-metadata.js';

/**
 * The condition of `@ValidateIf()` that lets a property be absent, and refuses null like every
 * other value of a wrong type. A schema reads it as `@IsOptional()`.
 */
export function isGiven(_: object, value: unknown): boolean {
  return value !== undefined;
}

/**
 * The groups for `plainToInstance`: all of them, so that a group hides a property from an audience
 * but never from the tool.
 */
export const INPUT_GROUPS: readonly Audience[] = ['model', 'ui', 'audit'];

/** The audiences that are no model: an argument that one of them may not see is hidden. */
const PEOPLE: readonly Audience[] = ['ui', 'audit'];

/** The conversion that `@Type()` declares for a value, or for the items of an array. */
export type ValueType =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'scalar'; readonly scalar: 'string' | 'number' | 'boolean' }
  | { readonly kind: 'date' }
  | { readonly kind: 'class'; readonly type: Type }
  | { readonly kind: 'unsupported'; readonly problem: string; readonly remedy: string };

export type DesignType = 'string' | 'number' | 'boolean' | 'array';

/** The metadata of class-transformer and the compiler about one property of a DTO. */
export interface InputProperty {
  readonly valueType: ValueType;
  /** The type that the compiler recorded, if every compiler records the same. */
  readonly designType: DesignType | undefined;
  /** `true` if `plainToInstance` passes the value to the instance. */
  readonly settable: boolean;
  /** Its name in JSON by `@Expose({ name })`, if that is another. */
  readonly renamed: string | undefined;
  /** `true` if the ui or the audit may not see it. */
  readonly hidden: boolean;
  /** `true` if a `@Transform()`, or a `@Type()` that reads the object, converts the value. */
  readonly transformed: boolean;
}

/**
 * Returns a reader of the metadata of a class's properties. The metadata of the class as a whole is
 * read once for all of them. `recordedType` is the compiler's type of a property whose class does
 * not have it.
 */
export function inputPropertiesOf(
  type: Type,
): (property: string, recordedType?: unknown) => InputProperty {
  const metadata = transformMetadata();
  const arrives = passageOf(type, PLAIN_TO_CLASS);
  const leaves = passageOf(type, CLASS_TO_PLAIN);
  return (property, recordedType) => {
    const exposure = metadata.findExposeMetadata(type, property)?.options;
    const design: unknown =
      Reflect.getMetadata('design:type', type.prototype as object, property) ?? recordedType;
    const seers = exposure?.groups ?? INPUT_GROUPS;
    const typed = metadata.findTypeMetadata(type, property);
    return {
      valueType: valueTypeOf(property, design, typed),
      designType: designTypeOf(design),
      settable: INPUT_GROUPS.some((audience) => seers.includes(audience)) && arrives(property),
      renamed: exposure?.toPlainOnly === true ? undefined : exposure?.name,
      hidden: !PEOPLE.every((audience) => seers.includes(audience)) || !leaves(property),
      transformed: isTransformed(type, property, typed),
    };
  };
}

function isTransformed(type: Type, property: string, typed: TypeMetadata | undefined): boolean {
  const looksAtObject = (typed?.typeFunction?.length ?? 0) > 0;
  return (
    looksAtObject ||
    transformMetadata().findTransformMetadatas(type, property, PLAIN_TO_CLASS).length > 0
  );
}

/**
 * Tells whether `@Exclude()` and `@Expose()`, on the property and on the class, let a value pass in
 * one direction.
 */
function passageOf(type: Type, direction: TransformationType): (property: string) => boolean {
  const excluded = transformMetadata().getExcludedProperties(type, direction);
  if (transformMetadata().getStrategy(type) !== 'excludeAll')
    return excluded.length === 0 ? PASSES : (property) => !excluded.includes(property);
  const exposed = transformMetadata().getExposedProperties(type, direction);
  return (property) => exposed.includes(property) && !excluded.includes(property);
}

const PASSES = (): boolean => true;

function valueTypeOf(
  property: string,
  design: unknown,
  metadata: TypeMetadata | undefined,
): ValueType {
  if (isCollection(design) || isCollection(metadata?.reflectedType)) {
    return {
      kind: 'unsupported',
      problem: 'is a Map or a Set, which JSON does not have',
      remedy: 'Use an array or a DTO class.',
    };
  }
  if (design === Secret || (metadata && typeNamedBy(metadata, property) === Secret))
    return NO_SECRET;
  if (!metadata) return UNKNOWN;
  if (metadata.options?.discriminator) {
    const remedy = 'Use one class with an enum that says which kind it is, or one tool per kind.';
    return {
      kind: 'unsupported',
      problem:
        'is one of several classes, which the supported subset of JSON Schema cannot express',
      remedy,
    };
  }
  return classify(typeNamedBy(metadata, property));
}

const isCollection = (declared: unknown): boolean => declared === Map || declared === Set;

const NO_SECRET: ValueType = {
  kind: 'unsupported',
  problem: 'is a Secret, but arguments of a model are not secret: they are in the transcript',
  remedy:
    'Pass it in the `context` of the request and read it from ToolCallContext.context, or use a connection.',
};

const UNKNOWN: ValueType = { kind: 'unknown' };

/**
 * Resolves the class of a `@Type()`; undefined where two modules import each other and the class is
 * not defined yet.
 */
function typeNamedBy({ typeFunction }: TypeMetadata, property: string): unknown {
  try {
    return typeFunction?.({ newObject: {}, object: {}, property });
  } catch {
    return undefined;
  }
}

function classify(type: unknown): ValueType {
  if (type === String) return { kind: 'scalar', scalar: 'string' };
  if (type === Number) return { kind: 'scalar', scalar: 'number' };
  if (type === Boolean) return { kind: 'scalar', scalar: 'boolean' };
  if (type === Date) return { kind: 'date' };
  if (type === Object) return UNKNOWN;
  if (typeof type === 'function' && !BUILT_IN.has(type))
    return { kind: 'class', type: type as Type };
  const remedy =
    'Give the class: @Type(() => Address), imported as a value; for an array, the class of its items.';
  return { kind: 'unsupported', problem: 'has a @Type() that names no class', remedy };
}

const BUILT_IN = new Set<unknown>([
  Array,
  Map,
  Set,
  WeakMap,
  WeakSet,
  Promise,
  Function,
  Symbol,
  BigInt,
  RegExp,
  Buffer,
]);

const DESIGN_TYPES = new Map<unknown, DesignType>([
  [String, 'string'],
  [Number, 'number'],
  [Boolean, 'boolean'],
  [Array, 'array'],
]);

/**
 * Reads the part of `design:type` that is the same for every compiler: an imported enum is String
 * or Number in tsc, and the enum itself in SWC.
 */
export function designTypeOf(design: unknown): DesignType | undefined {
  if (typeof design !== 'object' || design === null) return DESIGN_TYPES.get(design);
  const kinds = new Set(enumValues(design).map((value) => typeof value));
  const [kind] = kinds;
  return kinds.size === 1 && (kind === 'string' || kind === 'number') ? kind : undefined;
}

/**
 * Returns the values of a TypeScript enum or of an object like it, without the names that a numeric
 * enum maps back from its numbers.
 */
export function enumValues(members: object): unknown[] {
  const entries: [string, unknown][] = Object.entries(members);
  const values = new Map(entries);
  const isReverse = ([key, value]: [string, unknown]): boolean =>
    typeof value === 'string' &&
    String(values.get(value)) === key &&
    typeof values.get(value) === 'number';
  return [...new Set(entries.filter((entry) => !isReverse(entry)).map(([, value]) => value))];
}

/**
 * Describes the numbers of an enum by their names, since a schema holds the numbers only; undefined
 * where there are none.
 */
export function numberNames(members: object): string | undefined {
  const named = Object.entries(members).filter(
    ([key, value]) => typeof value === 'number' && !/^-?\d/.test(key),
  );
  return named.length === 0
    ? undefined
    : `${named.map(([key, value]) => `${String(value)} = ${key}`).join(', ')}.`;
}
