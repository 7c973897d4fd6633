import type { Type } from '@nestjs/common';
import type { JSONSchema7, JSONSchema7TypeName } from 'json-schema';
import type { ResolvedOutput } from '../decorators/tool-metadata.accessor.js';
import type { JsonValue } from '../protocol/json.js';
import { exposedPropertiesOf, isVisibleTo, shapeFor, type ScalarKind } from './exposed-properties.accessor.js';
import { dateToJson, scalarOfInstance, scalarToJson, type Conversion } from './revealed.projection.js';

/**
 * The schema of what the model sees of a declared class, so that MCP clients and code know a result's form. Every projection for the model validates
 * against it.
 *
 * It promises no more than every compiler's metadata carries: any property may be absent or null, and one whose type the compilers disagree on is `{}`.
 * `@Type(() => X)` says the same in all of them, one X or a list. Nested classes are definitions, so that they may refer to each other.
 */
export function outputSchemaOf({ type, list, nullable }: ResolvedOutput): JSONSchema7 {
  const definitions = new Definitions();
  const object = definitions.schemaOf(type);
  const root: JSONSchema7 = list
    ? { type: orNull('array', nullable), items: { ...object, type: ['object', 'null'] } }
    : { ...object, type: orNull('object', nullable) };
  const $defs = definitions.all();
  return Object.keys($defs).length === 0 ? root : { ...root, $defs };
}

/** The classes below a result, each under a name of its own. */
class Definitions {
  private readonly names = new Map<Type, string>();
  private readonly schemas = new Map<string, JSONSchema7>();

  schemaOf(type: Type): JSONSchema7 {
    const properties = exposedPropertiesOf(type)
      .filter((property) => !property.method && property.name !== '__proto__' && isVisibleTo(property, 'model'))
      .map((property) => [property.name, this.propertySchema(shapeFor(property, 'model'))] as const);
    return { type: 'object', properties: Object.fromEntries(properties), additionalProperties: false };
  }

  all(): Record<string, JSONSchema7> {
    return Object.fromEntries(this.schemas);
  }

  private propertySchema(shape: ReturnType<typeof shapeFor>): JSONSchema7 {
    if (shape.kind === 'scalar') return shape.list ? scalarOrList(shape.scalar) : scalarSchema(shape.scalar);
    if (shape.kind !== 'class' || shape.loose) return {};
    const one = { $ref: `#/$defs/${this.nameOf(shape.type)}` };
    return shape.list ? { type: ['object', 'array', 'null'], items: one } : one;
  }

  private nameOf(type: Type): string {
    const known = this.names.get(type);
    if (known !== undefined) return known;
    const name = this.freeName(type.name.replaceAll(/\W/g, '_') || 'Object');
    this.names.set(type, name);
    this.schemas.set(name, {}); // keeps its place, and ends the recursion
    this.schemas.set(name, { ...this.schemaOf(type), type: ['object', 'null'] });
    return name;
  }

  private freeName(wanted: string): string {
    let name = wanted;
    for (let count = 2; this.schemas.has(name); count += 1) name = `${wanted}_${count}`;
    return name;
  }
}

function scalarSchema(scalar: ScalarKind): JSONSchema7 {
  return scalar === 'date' ? { type: ['string', 'null'], format: 'date-time' } : { type: [scalar, 'null'] };
}

/** A Map of scalars is an object. */
function scalarOrList(scalar: ScalarKind): JSONSchema7 {
  const one = scalarSchema(scalar);
  return { ...one, type: [scalar === 'date' ? 'string' : scalar, 'object', 'array', 'null'], items: one };
}

type Scalar = string | number | boolean;

/** Undefined where a value cannot be had as this type without a loss. */
const SCALARS: Readonly<Record<ScalarKind, (value: Scalar) => JsonValue | undefined>> = {
  string: String,
  number: toNumber,
  boolean: (value) => (typeof value === 'boolean' ? value : toFlag(value)),
  date: (value) => (typeof value === 'boolean' ? undefined : toTime(value)),
};

/**
 * Makes a property's value fit its declared type where a driver hands over another form of it: `'12.50'` for a number, 1 for true, an ISO string
 * for a Date. What would lose something is refused, as the schema would refuse it.
 */
export function toDeclaredScalar(scalar: ScalarKind): Conversion {
  const convert = SCALARS[scalar];
  return (value, key, walk) => {
    if (scalar === 'date' && value instanceof Date) return dateToJson(value);
    const isObject = typeof value === 'object' && value !== null;
    const json = isObject ? scalarOfInstance(value, key, walk) : scalarToJson(value);
    if (json === null || (json === undefined && !isObject)) return json;
    const converted = json === undefined ? undefined : convert(json);
    if (converted !== undefined) return converted;
    const remedy = 'Correct its type, name another with @Type(), or convert it with @Transform().';
    throw walk.refuse(key, `is declared as ${scalar} and holds a value of type ${typeof value} that cannot become one`, remedy);
  };
}

/** Fifteen digits survive in a number. */
function toNumber(value: Scalar): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || !/^-?\d+(\.\d+)?$/.test(value)) return undefined;
  return value.replaceAll(/\D/g, '').length <= 15 ? Number(value) : undefined;
}

function toFlag(value: string | number): boolean | undefined {
  return value === 0 || value === 1 ? value === 1 : undefined;
}

/** A text without a zone could be anywhere, so it is no point in time. */
function toTime(value: string | number): string | null | undefined {
  if (typeof value === 'number') return dateToJson(new Date(value));
  if (!/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(value)) return undefined;
  return dateToJson(new Date(value));
}

function orNull(type: JSONSchema7TypeName, nullable: boolean): JSONSchema7TypeName | JSONSchema7TypeName[] {
  return nullable ? [type, 'null'] : type;
}
