import type { ToolSpec } from '@toolloop/protocol';
import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';

/**
 * Rewrites a schema for strict mode; undefined where strict mode cannot express it, such as an
 * object of unknown names. Constraints that strict mode does not know are told in the descriptions:
 * the loop checks the arguments anyway. An optional property becomes a required one that accepts
 * null, which the loop reads as absent; one that accepts null as a value of its own cannot be told
 * apart then, so that its schema is not for strict mode.
 */
export function toStrictSchema(schema: ToolSpec['inputSchema']): WireObject | undefined {
  const before = known.get(schema);
  if (before !== undefined) return before.strict;
  const { $defs, definitions } = schema;
  const narrowed = new StrictForm({ ...definitions, ...$defs }).narrowed({ ...schema });
  const strict = isStrictSchema(narrowed) ? narrowed : undefined;
  known.set(schema, { strict });
  return strict;
}

const known = new WeakMap<object, { readonly strict: WireObject | undefined }>();

/**
 * The constraints and notes that may be told in words. A keyword that is neither one of these nor
 * of {@link STRICT_KEYWORDS} shapes the value, and stays.
 */
const TOLD_KEYWORDS = new Set(
  'minLength maxLength minProperties maxProperties uniqueItems default examples format pattern'.split(
    ' ',
  ),
);

/**
 * Tells the keywords that say nothing to a model and ask nothing of a value: notes of other
 * programs.
 */
function isSilent(keyword: string): boolean {
  return SILENT_KEYWORDS.has(keyword) || keyword.startsWith('x-');
}

const SILENT_KEYWORDS = new Set(
  '$schema $id $comment deprecated readOnly writeOnly example externalDocs xml discriminator'.split(
    ' ',
  ),
);

/** The rewriting of one schema. */
class StrictForm {
  constructor(private readonly definitions: WireObject) {}

  narrowed(schema: WireObject, isAlternative = false): WireObject {
    const kept: Record<string, unknown> = {};
    const told: string[] = [];
    for (const [keyword, value] of Object.entries(schema)) {
      if (isTold(keyword, value)) told.push(`${keyword}: ${JSON.stringify(value)}`);
      else if (!isSilent(keyword)) kept[keyword] = this.rebuilt(keyword, value);
    }
    if (isWireObject(kept.properties) && !isAlternative)
      Object.assign(kept, this.requiringAll(schema, kept.properties));
    if (told.length > 0)
      kept.description = [schema.description, ...told].filter(Boolean).join('; ');
    return typeof kept.$ref === 'string' && kept.description !== undefined
      ? { anyOf: [{ $ref: kept.$ref }], description: kept.description }
      : kept;
  }

  private rebuilt(keyword: string, value: unknown): unknown {
    if (keyword === 'anyOf') return wireObjectsIn(value).map((part) => this.narrowed(part, true));
    if (keyword === 'items' && isWireObject(value)) return this.narrowed(value);
    const isNamed = keyword === 'properties' || keyword === '$defs' || keyword === 'definitions';
    return isNamed && isWireObject(value)
      ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, this.part(part)]))
      : value;
  }

  private part(part: unknown): unknown {
    return isWireObject(part) ? this.narrowed(part) : part;
  }

  /**
   * Makes each optional property a required one that accepts null; one that accepts null already
   * stays as it is.
   */
  private requiringAll({ properties, required }: WireObject, narrowed: WireObject): WireObject {
    const needed = new Set<unknown>(Array.isArray(required) ? required : []);
    const isGiven = (name: string): boolean =>
      needed.has(name) || this.takesNull(isWireObject(properties) ? properties[name] : undefined);
    const entries = Object.entries(narrowed).map(
      ([name, part]) => [name, isGiven(name) || !isWireObject(part) ? part : orNull(part)] as const,
    );
    return {
      properties: Object.fromEntries(entries),
      required: Object.keys(narrowed).filter((name) => needed.has(name) || !isGiven(name)),
    };
  }

  private takesNull(part: unknown, above: readonly unknown[] = []): boolean {
    if (!isWireObject(part)) return true;
    const { $ref: reference, type, enum: values, const: constant, anyOf } = part;
    if (typeof reference === 'string') {
      const target = this.definitions[reference.replace(/^#\/(?:\$defs|definitions)\//, '')];
      return above.includes(target) || this.takesNull(target, [...above, target]);
    }
    if (Array.isArray(anyOf))
      return anyOf.some((alternative) => this.takesNull(alternative, above));
    if (Array.isArray(values)) return values.includes(null);
    return constant === undefined ? type === undefined || isOf(type, 'null') : constant === null;
  }
}

function isTold(keyword: string, value: unknown): boolean {
  if (keyword === 'format') return typeof value === 'string' && !STRICT_FORMATS.has(value);
  if (keyword === 'pattern') return typeof value === 'string' && value.includes('(?');
  return TOLD_KEYWORDS.has(keyword);
}

/** Lets a schema accept null, too. */
function orNull(schema: WireObject): WireObject {
  const { type, enum: values, const: constant, description, ...rest } = schema;
  const told = description !== undefined && { description };
  if (Array.isArray(rest.anyOf))
    return { ...schema, anyOf: [...wireObjectsIn(rest.anyOf), { type: 'null' }] };
  const { $ref, properties } = rest;
  if ($ref !== undefined || properties !== undefined)
    return { ...told, anyOf: [{ ...(type !== undefined && { type }), ...rest }, { type: 'null' }] };
  const listed = constant === undefined ? values : [constant];
  return {
    ...told,
    ...rest,
    ...(type !== undefined && { type: [...[type].flat(), 'null'] }),
    ...(Array.isArray(listed) && { enum: [...(listed as readonly unknown[]), null] }),
  };
}

/**
 * The keywords of strict mode
 * (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas). Any other keyword
 * fails the whole request.
 */
const STRICT_KEYWORDS = new Set(
  (
    'type title description enum const properties required additionalProperties items anyOf $ref $defs definitions pattern format ' +
    'multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems'
  ).split(' '),
);

const STRICT_FORMATS = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uuid',
]);

/** The deepest nesting that strict mode accepts. */
const STRICT_DEPTH = 10;

/** The limits of strict mode for a schema as a whole. */
const STRICT_PROPERTIES = 5_000;
const STRICT_CHARACTERS = 120_000;
const STRICT_VALUES = 1_000;

/** The number of values in a list above which its characters are limited, too. */
const LONG_LIST = 250;
const LONG_LIST_CHARACTERS = 15_000;

/** Tells whether strict mode accepts a schema as it is. */
function isStrictSchema(schema: WireObject): boolean {
  return schema.type === 'object' && isStrict(schema, STRICT_DEPTH) && isWithinLimits(schema);
}

function isWithinLimits(schema: unknown): boolean {
  let [properties, characters, values] = [0, 0, 0];
  const count = (part: unknown): boolean => {
    if (!isWireObject(part)) return true;
    const list = valuesOf(part);
    const names = [part.$defs, part.definitions]
      .filter(isWireObject)
      .flatMap((parts) => Object.keys(parts));
    const own = isWireObject(part.properties) ? Object.keys(part.properties) : [];
    properties += own.length;
    values += Array.isArray(part.enum) ? list.length : 0;
    characters += sumLengths([...own, ...names, ...list]);
    return (
      (list.length <= LONG_LIST || sumLengths(list) <= LONG_LIST_CHARACTERS) &&
      subschemasOf(part).every(count)
    );
  };
  return (
    count(schema) &&
    properties <= STRICT_PROPERTIES &&
    characters <= STRICT_CHARACTERS &&
    values <= STRICT_VALUES
  );
}

function valuesOf({ enum: list, const: constant }: WireObject): readonly unknown[] {
  return Array.isArray(list) ? list : constant === undefined ? [] : [constant];
}

function sumLengths(values: readonly unknown[]): number {
  return values.reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? value.length : 0),
    0,
  );
}

function isStrict(schema: unknown, depth: number): boolean {
  if (!isWireObject(schema) || depth === 0 || !isExpressible(schema)) return false;
  return (
    isClosed(schema) && subschemasOf(schema).every((subschema) => isStrict(subschema, depth - 1))
  );
}

/**
 * Tells whether strict mode knows every keyword of a schema: each type is named, a pattern has no
 * look-around, and a reference stands alone.
 */
function isExpressible(schema: WireObject): boolean {
  const { type, $ref, anyOf, enum: values, const: constant, items, format, pattern } = schema;
  const keywords = Object.keys(schema);
  if (!keywords.every((keyword) => STRICT_KEYWORDS.has(keyword))) return false;
  if ($ref !== undefined) return keywords.length === 1;
  if ([type, anyOf, values, constant].every((value) => value === undefined)) return false;
  if (isOf(type, 'array') && items === undefined) return false;
  return (
    (typeof format !== 'string' || STRICT_FORMATS.has(format)) &&
    (typeof pattern !== 'string' || !pattern.includes('(?'))
  );
}

function isOf(type: unknown, name: string): boolean {
  return type === name || (Array.isArray(type) && type.includes(name));
}

/** Tells whether an object names all its properties, requires all of them and allows no others. */
function isClosed({ type, properties, required, additionalProperties }: WireObject): boolean {
  if (!isOf(type, 'object') && properties === undefined) return true;
  const names = isWireObject(properties) ? Object.keys(properties) : [];
  const wanted = new Set<unknown>(Array.isArray(required) ? required : []);
  return additionalProperties === false && names.every((name) => wanted.has(name));
}

function subschemasOf({
  properties,
  items,
  anyOf,
  $defs,
  definitions,
}: WireObject): readonly unknown[] {
  const alternatives: readonly unknown[] = Array.isArray(anyOf) ? anyOf : [];
  const named = [properties, $defs, definitions]
    .filter(isWireObject)
    .flatMap((schemas) => Object.values(schemas));
  return [...named, ...alternatives, ...(items === undefined ? [] : [items])];
}
