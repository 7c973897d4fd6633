import { isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { pointerSegment } from './argument-problems.js';
import { definitionNamed, NAMED_SCHEMAS, ONE_SCHEMA } from './subset.js';

/**
 * Reads the unions in a schema that are T or null, which is how pydantic writes an optional value,
 * or T alone; the whole is none. A reference that takes null becomes one to a definition of its
 * own, such as `PlaceOrNull`, since a definition may contain itself.
 */
export class NullUnions {
  private readonly added = new Map<string, JsonSchema>();

  constructor(
    private readonly definitions: JsonSchema,
    /** Completes each schema after its parts. */
    private readonly complete: (schema: JsonSchema) => JsonSchema,
    /** The meaning of null for a property that may be left out, if it is not the default. */
    private readonly optionalNull: 'absent' | 'value' = 'absent',
  ) {}

  read(whole: JsonSchema): JsonSchema {
    const schema = this.withParts(whole);
    const $defs: Record<string, unknown> = {};
    // which may add another, visited in its turn
    for (const [name, definition] of this.added) $defs[name] = this.part(definition);
    const named = schema['$defs'];
    return this.added.size > 0
      ? { ...schema, $defs: { ...(isRecord(named) && named), ...$defs } }
      : schema;
  }

  private part(source: unknown): unknown {
    if (!isRecord(source)) return source;
    const union = unionIn(source);
    return this.withParts(union ? this.valueOf(union) : source);
  }

  private withParts(schema: JsonSchema): JsonSchema {
    return this.complete(rewritten(this.withOptionals(schema), (part) => this.part(part)));
  }

  private takesNullAsValue({ schema, takesNull }: Union): boolean {
    return takesNull && this.optionalNull === 'value' && schema['default'] !== null;
  }

  private valueOf({ schema, takesNull }: Union): JsonSchema {
    return takesNull ? this.orNull(schema) : schema;
  }

  /**
   * Reads the properties of an object that are T or null. One that may be left out is T if null
   * means "not given", as it does for a default of null. Any other takes null as well.
   */
  private withOptionals(schema: JsonSchema): JsonSchema {
    const { properties, required } = schema;
    if (!isRecord(properties)) return schema;
    const needed: readonly unknown[] = Array.isArray(required) ? required : [];
    const read = ([name, property]: [string, unknown]): [string, unknown] => {
      const union = isRecord(property) ? unionIn(property) : undefined;
      if (!union) return [name, property];
      const isValue = needed.includes(name) || this.takesNullAsValue(union);
      return [name, isValue ? this.valueOf(union) : withoutNullValues(union.schema)];
    };
    return { ...schema, properties: Object.fromEntries(Object.entries(properties).map(read)) };
  }

  /** Lets a schema take null. One without a type, values or a reference takes it already. */
  private orNull({ type, enum: values, const: only, $ref, ...rest }: JsonSchema): JsonSchema {
    const listed: readonly unknown[] | undefined =
      only !== undefined ? [only] : Array.isArray(values) ? values : undefined;
    return {
      ...rest,
      ...($ref !== undefined && { $ref: this.referenceOrNull($ref) }),
      ...(type !== undefined && { type: [...new Set([type, 'null'].flat())] }),
      ...(listed && { enum: [...new Set([...listed, null])] }),
    };
  }

  /** Makes a reference to a definition that takes null; one to nothing stays as it is. */
  private referenceOrNull(reference: unknown): unknown {
    const named = nameIn(reference);
    const definition =
      named === undefined || !Object.hasOwn(this.definitions, named)
        ? undefined
        : this.definitions[named];
    if (named === undefined || !isRecord(definition)) return reference;
    let name = `${named}OrNull`;
    while (Object.hasOwn(this.definitions, name)) name += '_';
    if (!this.added.has(name)) {
      this.added.set(name, {}); // before its parts, of which one may be the definition itself
      this.added.set(name, this.orNull(unionIn(definition)?.schema ?? definition));
    }
    return `#/$defs${pointerSegment(name)}`;
  }
}

/** A schema of which only the keywords are known. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * Reads the unions with null of a schema of others that is otherwise left as it is, such as that of
 * a source's tool: null stays a value there unless it is the default, for which nothing stands as
 * well. Returns the same object where there is none, or where the schema is no JSON.
 */
export function withoutNullUnions(schema: JSONSchema7): JSONSchema7 {
  try {
    if (!/"(?:any|one|all)Of"/.test(JSON.stringify(schema))) return schema;
    const definitions: unknown = schema.$defs;
    const named = isRecord(definitions) ? definitions : {};
    return new NullUnions(named, (read) => read, 'value').read({ ...schema });
  } catch {
    return schema; // it contains itself, or is deeper than the stack: a finding tells
  }
}

/** Reads the name of the definition that a reference is about, in the older form as well. */
export function nameIn(reference: unknown): string | undefined {
  return typeof reference === 'string'
    ? definitionNamed(reference.replace(/^#\/definitions\//, '#/$defs/'))
    : undefined;
}

/**
 * Rewrites the direct subschemas of a schema. Values such as `default` and `enum` are data, and
 * stay as they are.
 */
function rewritten(schema: JsonSchema, rewrite: (subschema: unknown) => unknown): JsonSchema {
  const within = (keyword: string, value: unknown): unknown => {
    if (ONE_SCHEMA.includes(keyword)) return rewrite(value);
    if (!NAMED_SCHEMAS.includes(keyword) || !isRecord(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, child]) => [name, rewrite(child)]));
  };
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => [keyword, within(keyword, value)]),
  );
}

/** A union of T and null, or of T alone. */
interface Union {
  /** T, with what surrounds the union. */
  readonly schema: JsonSchema;
  readonly takesNull: boolean;
}

/**
 * Reads a union of T and null, or of T alone, and such unions in T; undefined for any other schema,
 * and where T and what surrounds it say the same keyword.
 */
export function unionIn(source: JsonSchema): Union | undefined {
  const keyword = ['anyOf', 'oneOf', 'allOf'].find((name) => source[name] !== undefined);
  if (keyword === undefined) return undefined;
  const { [keyword]: union, ...rest } = source;
  const branches: readonly unknown[] = Array.isArray(union) ? union : [];
  const value = onlyValueOf(keyword, branches);
  if (
    !value ||
    Object.keys(rest).some((name) => !SURROUNDING.has(name) && Object.hasOwn(value, name))
  )
    return undefined;
  const schema = { ...value, ...rest };
  const inner = unionIn(schema);
  return {
    schema: inner?.schema ?? schema,
    takesNull: branches.length > 1 || inner?.takesNull === true,
  };
}

/**
 * Returns the one branch that is not null; undefined where there are others, and where `allOf` has
 * null beside it.
 */
function onlyValueOf(keyword: string, branches: readonly unknown[]): JsonSchema | undefined {
  const [value, ...others] = branches.filter((branch) => !isNull(branch));
  const most = keyword === 'allOf' ? 1 : 2;
  return isRecord(value) && others.length === 0 && branches.length <= most ? value : undefined;
}

/** The keywords that may stand beside a union and in it. */
const SURROUNDING = new Set(['title', 'description', 'default', 'examples', 'deprecated', 'type']);

function isNull(branch: unknown): boolean {
  if (!isRecord(branch)) return false;
  const { type, enum: values, const: only } = branch;
  return (
    only === null ||
    [type].flat().join() === 'null' ||
    (Array.isArray(values) && values.length === 1 && values[0] === null)
  );
}

function withoutNullValues({ default: given, examples, ...rest }: JsonSchema): JsonSchema {
  const shown: unknown = Array.isArray(examples)
    ? examples.filter((example) => example !== null)
    : examples;
  return {
    ...rest,
    ...(given !== undefined && given !== null && { default: given }),
    ...(shown !== undefined && { examples: shown }),
  };
}
