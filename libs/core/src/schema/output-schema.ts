import type { Type } from '@nestjs/common';
import type { JsonValue } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7TypeName } from 'json-schema';
import type { ResolvedOutput } from '../tools/decorators/resolved-output.js';
import { knownFieldOf } from '../tools/decorators/tool-field.decorator.js';
import { RANGE_KEYWORD, VALUES_KEYWORD } from './capacity.js';
import { combineConstraints, constraintSchema } from './class-validator-schemas.js';
import {
  exposedPropertiesOf,
  type ExposedProperty,
  exposesAnything,
  isVisibleTo,
  type Kinds,
  type ScalarKind,
  shapeFor,
} from './exposed-properties.js';
import { LEFT_OUT_BY_APPLICATION, ORIGIN_KEYWORD, OWNER_KEYWORD } from './field-origins.js';
import { type Conversion, dateToJson, scalarOfInstance, scalarToJson } from './json-copy.js';
import { type ValidationRule, validationRulesOf } from './validation-rules.js';

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
    const ranges = rangesOf(type);
    const properties = exposed.map((property) => {
      const { origin, ownedBy, absence } = property.field();
      const owner = ownedBy !== undefined && { [OWNER_KEYWORD]: nameOf(ownedBy) };
      const typed = this.propertySchema(shapeFor(property, 'model'));
      const isAsKept = property.transforms.length === 0 && !('items' in typed) && !typed.$ref;
      const values = isAsKept ? listed.get(property.property) : undefined;
      const isNumber = isAsKept && [typed.type].flat().includes('number');
      const schema = {
        ...typed,
        ...(isNumber && ranges.get(property.property)),
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
  for (const { property, name, arguments: given } of rulesNamed(type, LISTING)) {
    const { enum: values = [] } = constraintSchema(name, given).keywords;
    if (values.length > 0) listed.set(property, [...new Set([...values, null])]);
  }
  return listed;
}

/**
 * Returns the ranges of properties that have `@Min()` and `@Max()`: it is known how much a whole
 * number within can tell. Rows that are older than the rule may be beyond it, and are no mistake.
 */
function rangesOf(type: Type): ReadonlyMap<string, object> {
  const rules = rulesNamed(type, BOUNDING);
  const properties = [...new Set(rules.map(({ property }) => property))];
  return new Map(
    properties.flatMap((property): [string, object][] => {
      const { minimum, maximum } = combineConstraints(
        rules.filter((rule) => rule.property === property),
      ).keywords;
      if (minimum === undefined || maximum === undefined) return [];
      return [[property, { [RANGE_KEYWORD]: [minimum, maximum] }]];
    }),
  );
}

const LISTING = new Set(['isIn', 'isEnum']);
const BOUNDING = new Set(['min', 'max']);

/** Returns the rules of these names that hold for a value of a property at all times. */
function rulesNamed(type: Type, names: ReadonlySet<string>): readonly ValidationRule[] {
  return validationRulesOf(type).filter(
    ({ kind, name, each, holds }) =>
      kind === 'constraint' && !each && holds === 'always' && names.has(name),
  );
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
