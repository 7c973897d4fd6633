import type { Type } from '@nestjs/common';
import { type Audience, isObject } from '@toolloop/protocol';
import { distance } from 'fastest-levenshtein';
import 'reflect-metadata';
import {
  knownFieldOf,
  TOOL_FIELD,
  type ToolFieldOptions,
} from '../tools/decorators/tool-field.decorator.js';
import { CLASS_TO_PLAIN, transformMetadata } from '../findings/transform-metadata.js';
import { missingPackage } from '../findings/late-packages.js';
import { validationRulesOf } from './validation-rules.js';

/**
 * Returns the properties of a class that may leave, inherited ones first. It is an allow-list: only
 * `@Expose()` on a property or getter counts.
 *
 * `@Expose()` on the class itself has no effect, since undecorated fields are unknown until an
 * instance exists; neither has `@Exclude()` on the class. `@Exclude()` on a property wins, even an
 * ancestor's. Exposures `toClassOnly` are about input and do not count. Where a class redeclares an
 * inherited property, its own `@Expose()` decides. Symbols never leave.
 */
export function exposedPropertiesOf(type: Type): readonly ExposedProperty[] {
  if (!isObject(type.prototype)) return [];
  const excluded = excludedFrom(type);
  return [...exposuresOf(type)].flatMap(([property, { target, options }]) => {
    if (excluded.has(property) || isOnlyInput(options)) return [];
    return [exposedProperty(type, property, target, options)];
  });
}

export const AUDIENCES: readonly Audience[] = ['model', 'ui', 'audit'];

/** A JavaScript type with a JSON form of its own, as far as a declaration shows it. */
export type ScalarKind = 'string' | 'number' | 'boolean' | 'date';

/**
 * The possible content of an exposed property. Schema and projection both follow it, so a projected
 * value always fits the schema.
 *
 * - `list`: one, or a list, a Set or a Map of them: `@Type()` does not say which, and `design:type`
 *   says it differently in every compiler.
 * - `loose`: objects are projected by `type`, and scalars pass: a `@Transform()` may have turned
 *   one into the other.
 * - `broken`: either no value could leave or every value would; a finding.
 */
export type PropertyShape =
  | { readonly kind: 'any' }
  | { readonly kind: 'broken'; readonly problem: string; readonly remedy: string }
  | { readonly kind: 'scalar'; readonly scalar: ScalarKind; readonly list: boolean }
  | {
      readonly kind: 'class';
      readonly type: Type;
      readonly list: boolean;
      readonly loose: boolean;
      readonly kinds?: Kinds;
    };

/** One of the classes among which a discriminator chooses, and its name in JSON. */
export interface Kind {
  readonly name: string;
  readonly type: Type;
}

/**
 * The discriminator of a `@Type()`: the classes that a value may have, and the property that names
 * its own.
 */
export interface Kinds {
  readonly property: string;
  readonly classes: readonly Kind[];
  /** The declaration itself, by which what is made of it is known again. */
  readonly declared: object;
}

/** A `@Transform()` in the direction of plain objects. */
export interface PropertyTransform {
  readonly groups: readonly string[] | undefined;
  apply(value: unknown, source: object, audience: Audience): unknown;
}

/** A property that may leave, as class-transformer's decorators describe it. */
export interface ExposedProperty {
  readonly property: string;
  /** The name of the property in JSON. */
  readonly name: string;
  /** The audiences that see it; undefined for all. */
  readonly groups: readonly string[] | undefined;
  /** `true` for a method, which is never called and never leaves; exposing one is a finding. */
  readonly method: boolean;
  /** The type that the compiler recorded; {@link PropertyShape} says how far it is trusted. */
  readonly designType: unknown;
  /** The options of its `@ToolField()`, and what is known of it beside them. */
  field(): ToolFieldOptions;
  /** The transforms, in the order in which they apply. */
  readonly transforms: readonly PropertyTransform[];
  /**
   * The class that projects its objects: `@Type(() => X)`, else its TypeScript type, if that class
   * exposes anything. Resolved late, since classes refer to each other.
   */
  nested(): Type | undefined;
  /** The classes among which the discriminator of its `@Type()` chooses; none without one. */
  kinds(): readonly Type[];
  shape(): PropertyShape;
}

const SCALAR_TYPES = new Map<unknown, ScalarKind>([
  [String, 'string'],
  [BigInt, 'string'],
  [Number, 'number'],
  [Boolean, 'boolean'],
  [Date, 'date'],
]);

/** The types that do not tell their content. */
const OPEN_TYPES = new Set<unknown>([Object, Array, Map, Set, Function, Symbol]);

/**
 * Returns the properties that a class hides from an audience, whatever a class above it exposes:
 * those with `@Exclude()`, and those whose nearest `@Expose()` is about input or for other
 * audiences.
 */
export function hiddenPropertiesOf(type: Type, audience: Audience): ReadonlySet<string> {
  const hidden = new Set(excludedFrom(type));
  for (const [property, { options }] of exposuresOf(type)) {
    if (isOnlyInput(options) || !isVisibleTo({ groups: options.groups }, audience))
      hidden.add(property);
  }
  return hidden;
}

/** Tells whether an audience sees a property. A group that is not an audience shows it to none. */
export function isVisibleTo(
  { groups }: { readonly groups: readonly string[] | undefined },
  audience: Audience,
): boolean {
  return groups === undefined || groups.includes(audience);
}

/** Returns the possible content of a property once the audience's transforms have run. */
export function shapeFor(property: ExposedProperty, audience: Audience): PropertyShape {
  const shape = property.shape();
  if (!property.transforms.some((transform) => isVisibleTo(transform, audience))) return shape;
  return shape.kind === 'class' ? { ...shape, list: true, loose: true } : { kind: 'any' };
}

/** Tells whether a class exposes anything to any audience. */
export function exposesAnything(type: Type): boolean {
  return exposedPropertiesOf(type).length > 0;
}

export function prototypeOf(type: Type): object {
  return isObject(type.prototype) ? type.prototype : type;
}

/**
 * Finds the class of an instance by its prototype, since an instance may have a property named
 * `constructor`.
 */
export function classOf(instance: object): Type | undefined {
  const prototype: unknown = Reflect.getPrototypeOf(instance);
  const constructor: unknown = isObject(prototype)
    ? Reflect.get(prototype, 'constructor')
    : undefined;
  return typeof constructor === 'function' && isObject(constructor.prototype)
    ? (constructor as Type)
    : undefined;
}

/**
 * Finds every problem of the exposures of a class and of the classes its properties lead to, so
 * that bootstrap can report all at once.
 */
export function exposureFindings(type: Type): ExposureFinding[] {
  const findings: ExposureFinding[] = [];
  const reached = new Set([type]);
  for (const current of reached) {
    const properties = exposedPropertiesOf(current);
    if (properties.length === 0) findings.push(exposesNothing(current));
    for (const property of properties) {
      findings.push(...propertyFindings(current, property));
      const nested = property.nested();
      if (nested) reached.add(nested);
      for (const kind of property.kinds()) reached.add(kind);
    }
    findings.push(...nameFindings(current, properties));
  }
  return findings;
}

interface ExposureFinding {
  readonly problem: string;
  readonly remedy: string;
}

function exposesNothing(type: Type): ExposureFinding {
  const problem = `${type.name} exposes no property`;
  if (SCALAR_TYPES.has(type) || OPEN_TYPES.has(type))
    return { problem, remedy: "Declare `reveal: 'all'` instead of `output`." };
  const missing = missingPackage('class-transformer', `The @Expose() of ${type.name}`);
  if (missing) return missing;
  const isMarked =
    isObject(type.prototype) && transformMetadata().getStrategy(type) === 'exposeAll';
  const remedy = 'Put @Expose() on each property that may be shown';
  return {
    problem,
    remedy: isMarked ? `${remedy}; @Expose() on the class exposes none.` : `${remedy}.`,
  };
}

function propertyFindings(type: Type, property: ExposedProperty): ExposureFinding[] {
  const at = `${type.name}.${property.property}`;
  const findings = [property, ...property.transforms].flatMap(({ groups }) =>
    groupFindings(at, groups),
  );
  findings.push(
    ...TOOL_FIELD.findings(property.field(), at).map(({ problem, remedy }) => ({
      problem: `${at} ${problem}`,
      remedy,
    })),
  );
  const broken = AUDIENCES.filter((audience) => isVisibleTo(property, audience))
    .map((audience) => shapeFor(property, audience))
    .find((shape) => shape.kind === 'broken');
  if (property.method) {
    findings.push({
      problem: `${at}() is a method with @Expose()`,
      remedy: 'Methods are never called: make it a getter, or remove @Expose().',
    });
  } else if (broken) {
    findings.push({ problem: `${at} ${broken.problem}`, remedy: broken.remedy });
  }
  if (property.name === '__proto__')
    findings.push({ problem: `${at} is exposed as "__proto__"`, remedy: 'Give it another name.' });
  return findings;
}

function groupFindings(at: string, groups: readonly string[] | undefined): ExposureFinding[] {
  if (groups?.length === 0)
    return [
      {
        problem: `${at} has an empty list of groups`,
        remedy: 'Name model, ui or audit, or leave the groups out.',
      },
    ];
  const unknown = (groups ?? []).filter(
    (group) => !AUDIENCES.some((audience) => audience === group),
  );
  return unknown.map((group) => {
    const closest = AUDIENCES.toSorted(
      (one, other) => distance(group, one) - distance(group, other),
    ).find((audience) => distance(group, audience) <= 2);
    const remedy = closest ? `Did you mean "${closest}"?` : 'Groups are model, ui and audit.';
    return { problem: `${at} has the unknown group "${group}"`, remedy };
  });
}

/** Finds names that two properties share. They may, where no audience sees both. */
function nameFindings(type: Type, properties: readonly ExposedProperty[]): ExposureFinding[] {
  const findings = AUDIENCES.flatMap((audience) => {
    const names = properties
      .filter((property) => isVisibleTo(property, audience))
      .map(({ name }) => name);
    return names.filter((name, index) => names.indexOf(name) !== index);
  });
  return [...new Set(findings)].map((name) => ({
    problem: `${type.name} exposes two properties as "${name}"`,
    remedy: 'Give one of them another name, or let no audience see both.',
  }));
}

interface Exposure {
  readonly target: unknown;
  readonly options: ExposureOptions;
}

interface ExposureOptions {
  readonly name?: string;
  readonly groups?: readonly string[];
  readonly toClassOnly?: boolean;
  readonly toPlainOnly?: boolean;
}

/**
 * Finds the nearest `@Expose()` of every property, in the order of the classes from the most
 * distant ancestor down.
 */
function exposuresOf(type: Type): ReadonlyMap<string, Exposure> {
  const exposures = new Map<string, Exposure>();
  const lineage = lineageOf(type);
  const all = transformMetadata().getExposedMetadatas(type);
  const ordered = all.toSorted(
    (one, other) => lineage.indexOf(one.target) - lineage.indexOf(other.target),
  );
  for (const { propertyName, target, options } of ordered) {
    if (typeof propertyName === 'string')
      exposures.set(propertyName, { target, options: options ?? {} });
  }
  return exposures;
}

function excludedFrom(type: Type): ReadonlySet<string> {
  return new Set(transformMetadata().getExcludedProperties(type, CLASS_TO_PLAIN));
}

function isOnlyInput({ toClassOnly, toPlainOnly }: ExposureOptions): boolean {
  return toClassOnly === true && toPlainOnly !== true;
}

function exposedProperty(
  type: Type,
  property: string,
  target: unknown,
  options: ExposureOptions,
): ExposedProperty {
  const designType: unknown = Reflect.getMetadata(
    'design:type',
    type.prototype as object,
    property,
  );
  const explicit = transformMetadata().findTypeMetadata(type, property) as DeclaredType | undefined;
  const shape = () =>
    explicit?.typeFunction
      ? explicitShape(explicit.typeFunction, kindsIn(explicit))
      : designShape(designType, target);
  return {
    property,
    name: options.name || property,
    groups: options.groups,
    method: isMethod(type.prototype as object, property),
    designType,
    field: () => fieldOf(type, property),
    transforms: transformsOf(type, property),
    shape,
    nested: () => {
      const found = shape();
      return found.kind === 'class' && exposesAnything(found.type) ? found.type : undefined;
    },
    kinds: () => {
      const found = shape();
      return found.kind === 'class' ? (found.kinds?.classes.map((one) => one.type) ?? []) : [];
    },
  };
}

/** A `@Type()` as class-transformer keeps it. */
interface DeclaredType {
  readonly typeFunction?: () => unknown;
  readonly options?: {
    readonly discriminator?: {
      readonly property: string;
      readonly subTypes: readonly { readonly name: string; readonly value: unknown }[];
    };
  };
}

function kindsIn({ options }: DeclaredType): Kinds | undefined {
  const declared = options?.discriminator;
  if (!declared) return undefined;
  const classes = declared.subTypes.flatMap(({ name, value }) =>
    typeof value === 'function' ? [{ name, type: value as Type }] : [],
  );
  return classes.length === 0 ? undefined : { property: declared.property, classes, declared };
}

function fieldOf(type: Type, property: string): ToolFieldOptions {
  const rules = validationRulesOf(type).filter((rule) => rule.property === property && rule.field);
  const own = rules.at(-1)?.field?.options ?? {};
  const {
    absence,
    values: _values,
    ...known
  } = { absence: undefined, values: undefined, ...knownFieldOf(type, property) };
  return { ...(own.origin === undefined && known), ...(absence && { absence }), ...own };
}

/**
 * Reads the content of a property from `@Type()`, which names the class of the elements, but not
 * whether there is one or a list; the same in every compiler.
 */
function explicitShape(typeFunction: () => unknown, kinds: Kinds | undefined): PropertyShape {
  const type = callUnlessCircular(typeFunction);
  if (typeof type !== 'function') {
    return {
      kind: 'broken',
      problem: 'has a @Type() that names no class',
      remedy: 'Is its file part of an import cycle?',
    };
  }
  const scalar = SCALAR_TYPES.get(type);
  return scalar
    ? { kind: 'scalar', scalar, list: true }
    : classShape(type as Type, { list: true, loose: false, ...(kinds && { kinds }) });
}

/**
 * Reads the content of a property from `design:type`, as far as tsc and SWC agree: scalars, enums
 * (String or Number in tsc, the enum object in SWC) and other classes.
 *
 * A readonly array is Array in tsc and Object in SWC, a property of its own class is that class or
 * Object: both count as unknown. An alias of a literal union is String in tsc, which looks like
 * `string`, and Object in SWC; `@Type(() => String)` makes them agree.
 */
function designShape(designType: unknown, target: unknown): PropertyShape {
  const scalar = SCALAR_TYPES.get(designType) ?? enumKindOf(designType);
  if (scalar) return { kind: 'scalar', scalar, list: false };
  if (typeof designType !== 'function') return { kind: 'any' };
  const self = designType === target;
  return classShape(designType as Type, { list: self, loose: self });
}

/**
 * Reads the content of a property from its class. One that exposes nothing is fine if its instances
 * have a scalar as JSON, as a Decimal has, or are lists.
 */
function classShape(
  type: Type,
  how: { readonly list: boolean; readonly loose: boolean; readonly kinds?: Kinds },
): PropertyShape {
  if (OPEN_TYPES.has(type)) return { kind: 'any' };
  const isShown =
    exposesAnything(type) || how.kinds?.classes.some((one) => exposesAnything(one.type)) === true;
  if (isShown) return { kind: 'class', type, ...how };
  if (type === Promise) {
    return {
      kind: 'broken',
      problem: 'is a Promise',
      remedy: 'Await it into a field of its own and expose that.',
    };
  }
  const prototype: unknown = type.prototype;
  if (!isObject(prototype) || 'toJSON' in prototype || Symbol.iterator in prototype)
    return { kind: 'any' };
  const remedy = `Put @Expose() on what may be shown of ${type.name}, or turn it into JSON with @Transform().`;
  return { kind: 'broken', problem: `is of the class ${type.name}, which exposes nothing`, remedy };
}

/**
 * Finds the type of an enum's members. A numeric enum also maps its numbers back to its names;
 * those entries are not members.
 */
function enumKindOf(designType: unknown): ScalarKind | undefined {
  if (typeof designType !== 'object' || designType === null) return undefined;
  const members = Object.entries(designType).filter(([name]) => Number.isNaN(Number(name)));
  const kinds = new Set(members.map(([, member]) => typeof member));
  if (kinds.size !== 1) return undefined;
  if (kinds.has('string')) return 'string';
  return kinds.has('number') ? 'number' : undefined;
}

/** Returns the transforms of a property in the direction of plain objects, inherited ones first. */
export function transformsOf(type: Type, property: string): readonly PropertyTransform[] {
  return transformMetadata()
    .findTransformMetadatas(type, property, CLASS_TO_PLAIN)
    .map(({ transformFn, options }) => ({
      groups: options?.groups,
      apply: (value, obj, audience): unknown =>
        transformFn({
          value,
          obj,
          key: property,
          type: CLASS_TO_PLAIN,
          options: { groups: [audience] },
        }),
    }));
}

function isMethod(prototype: object, property: string): boolean {
  for (let level: object | null = prototype; level; level = Reflect.getPrototypeOf(level)) {
    const descriptor = Reflect.getOwnPropertyDescriptor(level, property);
    if (descriptor) return typeof descriptor.value === 'function';
  }
  return false;
}

/** Returns the classes from the most distant ancestor to the class itself. */
function lineageOf(type: Type): unknown[] {
  const lineage: unknown[] = [];
  for (
    let level: unknown = type;
    typeof level === 'function';
    level = Reflect.getPrototypeOf(level)
  )
    lineage.unshift(level);
  return lineage;
}

function callUnlessCircular(typeFunction: () => unknown): unknown {
  try {
    return typeFunction();
  } catch {
    return undefined; // a circular import that is not there yet
  }
}
