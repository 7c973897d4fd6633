import type { Type } from '@nestjs/common';
import type { JsonValue } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7TypeName } from 'json-schema';
import type { ResolvedOutput } from '../decorators/tool-metadata.js';
import { knownFieldOf } from '../decorators/tool-parameters.decorator.js';
import { constraintSchema } from './constraints.js';
import {
  type ExposedProperty,
  exposedPropertiesOf,
  exposesAnything,
  isVisibleTo,
  type Kinds,
  type ScalarKind,
  shapeFor,
} from './exposed-properties.js';
import {
  LEFT_OUT_BY_APPLICATION,
  ORIGIN_KEYWORD,
  OWNER_KEYWORD,
  VALUES_KEYWORD,
} from './field-origins.js';
import { inputPropertiesOf, type ValidationRule, validationRulesOf } from './property-metadata.js';
import {
  type BacktrackingPattern,
  type DtoProperty,
  propertyDefaultsOf,
  type PropertyProblem,
  type PropertySchema,
  propertySchema,
} from './property-schema.js';
import { type Conversion, dateToJson, scalarOfInstance, scalarToJson } from './reveal.js';

/** The JSON form of a DTO class. */
export interface DtoSchema {
  readonly schema: JSONSchema7;
  /** `true` if class-validator has constraints that the schema cannot express. */
  readonly needsClassValidator: boolean;
  /**
   * The names of top-level properties that class-transformer hides from the ui or the audit, or
   * that hold such a property.
   */
  readonly hidden: readonly string[];
  /**
   * The problems of the class; with any, the schema must not be used. `path` is `Class.property`,
   * or `Class` for the whole.
   */
  readonly findings: readonly DtoFinding[];
  /** The patterns that the linear engine cannot run. */
  readonly backtracking: readonly (DtoFinding & BacktrackingPattern)[];
}

export interface DtoFinding extends PropertyProblem {
  readonly path: string;
}

/**
 * Makes the JSON Schema of a DTO class from class-validator's and class-transformer's metadata. A
 * nested class is inlined, unless it is used twice or within itself: then it is in `$defs`. The
 * same class always gives the same schema.
 */
export function dtoSchema(type: Type, classes = new DtoClasses()): DtoSchema {
  return new DtoCompilation(type, classes).result();
}

class DtoCompilation {
  private readonly uses = new Map<Type, number>();
  private readonly definitions = new Map<string, JSONSchema7>();
  private readonly names = new Map<Type, { plain?: string; nullable?: string }>();
  private readonly findings = new Map<string, DtoFinding>();
  private readonly backtracking = new Map<string, DtoFinding & BacktrackingPattern>();
  private exact = true;

  constructor(
    private readonly root: Type,
    private readonly classes: DtoClasses,
  ) {
    this.visit(root);
  }

  result(): DtoSchema {
    const schema = this.objectSchema(this.root, false);
    const definitions =
      this.definitions.size > 0 ? { $defs: Object.fromEntries(this.definitions) } : {};
    return {
      schema: { ...schema, ...definitions },
      needsClassValidator: !this.exact,
      hidden: this.classes
        .of(this.root)
        .properties.filter((property) => this.hides(property))
        .map(({ name }) => name),
      findings: [...this.findings.values()],
      backtracking: [...this.backtracking.values()],
    };
  }

  /** Counts the uses of a class; the root has one from the start. */
  private visit(type: Type): void {
    const uses = this.uses.get(type) ?? 0;
    this.uses.set(type, uses + 1);
    if (uses > 0) return;
    const { properties, problems } = this.classes.of(type);
    for (const { input } of properties)
      if (input.valueType.kind === 'class') this.visit(input.valueType.type);
    for (const problem of problems) this.report(type.name, problem);
  }

  private objectSchema(type: Type, nullable: boolean): JSONSchema7 {
    const properties = new Map<string, JSONSchema7>();
    const needed: string[] = [];
    for (const property of this.classes.of(type).properties) {
      const { schema, required } = this.propertySchema(type, property);
      properties.set(property.name, schema);
      if (required) needed.push(property.name);
    }
    return {
      type: nullable ? ['object', 'null'] : 'object',
      properties: Object.fromEntries(properties),
      ...(needed.length > 0 && { required: needed }),
      additionalProperties: false,
    };
  }

  private propertySchema(type: Type, property: DtoProperty): PropertySchema {
    const compiled = propertySchema(property, (nested, nullable) =>
      this.nestedSchema(nested, nullable),
    );
    this.exact &&= compiled.exact;
    for (const problem of compiled.problems) this.report(`${type.name}.${property.name}`, problem);
    for (const pattern of compiled.backtracking) {
      const path = `${type.name}.${property.name}`;
      this.backtracking.set(`${path} ${pattern.problem}`, { path, ...pattern });
    }
    return compiled;
  }

  private nestedSchema(type: Type, nullable: boolean): JSONSchema7 {
    if ((this.uses.get(type) ?? 0) < 2) return this.objectSchema(type, nullable);
    const known = this.names.get(type) ?? {};
    this.names.set(type, known);
    const variant = nullable ? 'nullable' : 'plain';
    const name = known[variant] ?? this.freeName(`${type.name}${nullable ? 'OrNull' : ''}`);
    if (known[variant] === undefined) {
      known[variant] = name;
      this.definitions.set(name, {}); // takes the name before the class is found within itself
      this.definitions.set(name, this.objectSchema(type, nullable));
    }
    return { $ref: `#/$defs/${name}` };
  }

  /** Finds a free name, since two classes may have the same one. */
  private freeName(className: string): string {
    const base = className.replaceAll(/\W/g, '_') || 'Input';
    let name = base;
    for (let count = 2; this.definitions.has(name); count += 1) name = `${base}_${count}`;
    return name;
  }

  private hides({ input: { hidden, valueType } }: DtoProperty, seen?: Set<Type>): boolean {
    if (hidden) return true;
    if (valueType.kind !== 'class' || seen?.has(valueType.type)) return false;
    const known = (seen ?? new Set()).add(valueType.type);
    return this.classes
      .of(valueType.type)
      .properties.some((property) => this.hides(property, known));
  }

  private report(path: string, { problem, remedy }: PropertyProblem): void {
    this.findings.set(`${path} ${problem}`, { path, problem, remedy });
  }
}

/** The metadata of a class that matters for arguments. */
export interface DtoClass {
  readonly type: Type;
  readonly properties: readonly DtoProperty[];
  readonly problems: readonly PropertyProblem[];
}

/**
 * The classes of one DTO. Each is read once: reading the decorators is most of the cost of building
 * a tool.
 */
export class DtoClasses {
  private readonly classes = new Map<Type, DtoClass>();

  of(type: Type): DtoClass {
    const known = this.classes.get(type) ?? describeClass(type);
    this.classes.set(type, known);
    return known;
  }
}

/**
 * Reads a class. Its properties are those that class-validator or `@ToolField()` names, in the
 * order of declaration, base classes first.
 */
function describeClass(type: Type): DtoClass {
  const defaults = propertyDefaultsOf(type);
  const inputOf = inputPropertiesOf(type);
  const properties: DtoProperty[] = [];
  rulesByProperty(type).forEach((rules, name) => {
    // of the class itself, before those it extends
    const recorded = rules.findLast(({ field }) => field)?.field;
    const input = inputOf(name, recorded?.designType);
    properties.push({ name, rules, input, field: recorded?.options, default: defaults?.get(name) });
  });
  return { type, properties, problems: classProblems(properties.length, defaults !== undefined) };
}

function rulesByProperty(type: Type): ReadonlyMap<string, readonly ValidationRule[]> {
  const rules = new Map<string, ValidationRule[]>();
  for (const rule of validationRulesOf(type)) {
    const known = rules.get(rule.property);
    if (known) known.push(rule);
    else rules.set(rule.property, [rule]);
  }
  return rules;
}

function classProblems(properties: number, constructible: boolean): PropertyProblem[] {
  const problems: PropertyProblem[] = [];
  if (properties === 0) {
    const remedy =
      'Decorate its properties with class-validator, e.g. @IsString(), or with @ToolField(). A tool without arguments needs no @ToolInput().';
    problems.push({
      problem: 'has no decorated property, so nothing is known about its arguments',
      remedy,
    });
  }
  if (!constructible) {
    problems.push({
      problem: 'cannot be made without arguments, as class-transformer makes it',
      remedy: 'Let its constructor take none and throw nothing.',
    });
  }
  return problems;
}

/**
 * Makes the schema of the model's projection of a declared class, so that MCP clients and code know
 * a result's form. Every projection for the model validates against it.
 *
 * It promises no more than every compiler's metadata holds: any property may be absent or null, and
 * one whose type the compilers disagree on is `{}`. `@Type(() => X)` means the same in all of them,
 * one X or a list. Nested classes are definitions, so that they may refer to each other.
 */
export function outputSchema({ type, list, nullable }: ResolvedOutput): JSONSchema7 {
  const definitions = new Definitions();
  const object = definitions.schemaOf(type);
  const root: JSONSchema7 = list
    ? { type: orNull('array', nullable), items: { ...object, type: ['object', 'null'] } }
    : { ...object, type: orNull('object', nullable) };
  const $defs = definitions.all();
  return Object.keys($defs).length === 0 ? root : { ...root, $defs };
}

/** The schemas of the classes below a result, each under a name of its own. */
class Definitions {
  private readonly names = new Map<object, string>();
  private readonly schemas = new Map<string, JSONSchema7>();

  schemaOf(type: Type): JSONSchema7 {
    const exposed = exposedPropertiesOf(type).filter(
      (property) =>
        !property.method && property.name !== '__proto__' && isVisibleTo(property, 'model'),
    );
    const nameOf = (property: string): string =>
      exposed.find((one) => one.property === property)?.name ?? property;
    const listed = listedValuesOf(type);
    const properties = exposed.map((property) => {
      const { origin, ownedBy, absence } = property.field();
      const owner = ownedBy !== undefined && { [OWNER_KEYWORD]: nameOf(ownedBy) };
      const typed = this.propertySchema(shapeFor(property, 'model'));
      const values =
        property.transforms.length === 0 && !('items' in typed) && !typed.$ref
          ? listed.get(property.property)
          : undefined;
      const schema = {
        ...typed,
        ...(values && { enum: values }),
        ...knownValuesOf(type, property),
        ...(origin && { [ORIGIN_KEYWORD]: origin }),
        ...owner,
        ...(absence && LEFT_OUT_BY_APPLICATION),
      };
      return [property.name, schema] as const;
    });
    return {
      type: 'object',
      properties: Object.fromEntries(properties),
      additionalProperties: false,
    };
  }

  all(): Record<string, JSONSchema7> {
    return Object.fromEntries(this.schemas);
  }

  private propertySchema(shape: ReturnType<typeof shapeFor>): JSONSchema7 {
    if (shape.kind === 'scalar')
      return shape.list ? scalarOrList(shape.scalar) : scalarSchema(shape.scalar);
    if (shape.kind !== 'class' || shape.loose) return {};
    const { type, kinds } = shape;
    const name = kinds
      ? this.nameFor(kinds.declared, type.name, () => this.anyOfKinds(type, kinds))
      : this.nameOf(type);
    const one = { $ref: `#/$defs/${name}` };
    return shape.list ? { type: ['object', 'array', 'null'], items: one } : one;
  }

  /**
   * Makes the schema of an object of one of several classes: it has the fields of all of them, any
   * of which may be absent.
   */
  private anyOfKinds(type: Type, { property, classes }: Kinds): JSONSchema7 {
    const types = [...(exposesAnything(type) ? [type] : []), ...classes.map((one) => one.type)];
    const properties = new Map<string, JSONSchema7>([
      [property, { type: ['string', 'null'], enum: [...classes.map(({ name }) => name), null] }],
    ]);
    for (const [name, schema] of types.flatMap((one) =>
      Object.entries(this.schemaOf(one).properties ?? {}),
    )) {
      const known = properties.get(name);
      if (name === property || typeof schema === 'boolean') continue;
      // The classes may hold different things under one name.
      properties.set(
        name,
        known === undefined || JSON.stringify(known) === JSON.stringify(schema) ? schema : {},
      );
    }
    return {
      type: 'object',
      properties: Object.fromEntries(properties),
      additionalProperties: false,
    };
  }

  private nameOf(type: Type): string {
    return this.nameFor(type, type.name, () => this.schemaOf(type));
  }

  private nameFor(declared: object, wanted: string, make: () => JSONSchema7): string {
    const known = this.names.get(declared);
    if (known !== undefined) return known;
    const name = this.freeName(wanted.replaceAll(/\W/g, '_') || 'Object');
    this.names.set(declared, name);
    this.schemas.set(name, {}); // keeps its place, and ends the recursion
    this.schemas.set(name, { ...make(), type: ['object', 'null'] });
    return name;
  }

  private freeName(wanted: string): string {
    let name = wanted;
    for (let count = 2; this.schemas.has(name); count += 1) name = `${wanted}_${count}`;
    return name;
  }
}

/**
 * Returns the values that a library knows of a property, unless a transform makes others of them.
 */
function knownValuesOf(type: Type, { property, transforms }: ExposedProperty): object {
  const values = transforms.length === 0 ? knownFieldOf(type, property)?.values : undefined;
  return values ? { [VALUES_KEYWORD]: values } : {};
}

/**
 * Returns the values that `@IsIn()` and `@IsEnum()` list for properties of a class, and null, which
 * any property may be.
 */
function listedValuesOf(type: Type): ReadonlyMap<string, JSONSchema7['enum']> {
  const listed = new Map<string, JSONSchema7['enum']>();
  for (const { property, kind, name, arguments: given, each, holds } of validationRulesOf(type)) {
    if (
      kind !== 'constraint' ||
      each ||
      holds !== 'always' ||
      (name !== 'isIn' && name !== 'isEnum')
    )
      continue;
    const { enum: values = [] } = constraintSchema(name, given).keywords;
    if (values.length > 0) listed.set(property, [...new Set([...values, null])]);
  }
  return listed;
}

function scalarSchema(scalar: ScalarKind): JSONSchema7 {
  return scalar === 'date'
    ? { type: ['string', 'null'], format: 'date-time' }
    : { type: [scalar, 'null'] };
}

/** Makes the schema of a scalar or of many; a Map of scalars is an object. */
function scalarOrList(scalar: ScalarKind): JSONSchema7 {
  const one = scalarSchema(scalar);
  return {
    ...one,
    type: [scalar === 'date' ? 'string' : scalar, 'object', 'array', 'null'],
    items: one,
  };
}

type Scalar = string | number | boolean;

/** Converts a value to a number, if it has at most the fifteen digits that a number keeps. */
function toNumber(value: Scalar): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || !/^-?\d+(\.\d+)?$/.test(value)) return undefined;
  return value.replaceAll(/\D/g, '').length <= 15 ? Number(value) : undefined;
}

function toFlag(value: string | number): boolean | undefined {
  return value === 0 || value === 1 ? value === 1 : undefined;
}

/** Converts a value to a point in time, which a text without a zone is not. */
function toTime(value: string | number): string | null | undefined {
  if (typeof value === 'number') return dateToJson(new Date(value));
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(value))
    return undefined;
  return dateToJson(new Date(value));
}

/** The conversions of a value to a declared type; undefined where it would lose something. */
const SCALARS: Readonly<Record<ScalarKind, (value: Scalar) => JsonValue | undefined>> = {
  string: String,
  number: toNumber,
  boolean: (value) => (typeof value === 'boolean' ? value : toFlag(value)),
  date: (value) => (typeof value === 'boolean' ? undefined : toTime(value)),
};

/**
 * Converts a property's value to its declared type where a driver returns another form of it:
 * `'12.50'` for a number, 1 for true, an ISO string for a Date. A conversion with a loss is
 * refused, as the schema would refuse it.
 */
export function toDeclaredScalar(scalar: ScalarKind): Conversion {
  const convert = SCALARS[scalar];
  return (value, key, walk) => {
    if (scalar === 'date' && value instanceof Date) return dateToJson(value);
    const isReference = typeof value === 'object' && value !== null;
    const json = isReference ? scalarOfInstance(value, key, walk) : scalarToJson(value);
    if (json === null || (json === undefined && !isReference)) return json;
    const converted = json === undefined ? undefined : convert(json);
    if (converted !== undefined) return converted;
    const remedy = 'Correct its type, name another with @Type(), or convert it with @Transform().';
    throw walk.refuse(
      key,
      `is declared as ${scalar} and holds a value of type ${typeof value} that cannot become one`,
      remedy,
    );
  };
}

function orNull(
  type: JSONSchema7TypeName,
  nullable: boolean,
): JSONSchema7TypeName | JSONSchema7TypeName[] {
  return nullable ? [type, 'null'] : type;
}
