import type { StandardSchemaV1 } from '@standard-schema/spec';
import { isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ToolInputCodec } from '../contracts/tool.js';
import type { RawInput } from '../tools/decorators/raw-tool.js';
import { pointerSegment } from './argument-problems.js';
import { toJson } from './canonical-json.js';
import { hasJsonSchema, isStandardSchema, standardReader } from './standard-schema.js';
import {
  NAMED_SCHEMAS,
  ONE_SCHEMA,
  declaredFindings,
  definitionNamed,
  schemaFindings,
} from './subset.js';
import {
  type CompiledInput,
  compileDtoInput,
  compileSchemaInput,
  type Declaration,
  isDtoClass,
  NO_ARGUMENTS,
  unusableInput,
} from './tool-input.js';
import type { SchemaValidators } from './validators.js';

/**
 * Compiles the input of a tool that is not a method: a DTO class, a Standard Schema, a JSON Schema,
 * or no arguments. `reserved` must not hold the names that the tool is allowed.
 */
export function compileRawInput(
  { at, reserved, input }: RawDeclaration,
  validators: SchemaValidators,
): CompiledInput {
  const declaration = { at, reserved };
  const given: unknown = input;
  if (given === undefined) return compileSchemaInput({ ...declaration, schema: NO_ARGUMENTS });
  // first: it may be a function, or a class
  if (isStandardSchema(given)) return compileStandardInput(declaration, given, validators);
  if (isDtoClass(given)) return compileDtoInput({ ...declaration, type: given });
  if (isRecord(given))
    return compileForeignSchema(declaration, { convert: () => given }, validators);
  const remedy =
    'Give a DTO class, a Standard Schema such as z.object({ … }), or a JSON Schema of type "object"; leave it out for no arguments.';
  return unusableInput(declaration, {
    problem: 'The input is neither a class nor a schema.',
    remedy,
  });
}

/** A schema of which only the keywords are known. */
type JsonSchema = Readonly<Record<string, unknown>>;

type RawDeclaration = Declaration & { readonly input: RawInput | undefined };

function compileStandardInput(
  declaration: Declaration,
  schema: StandardSchemaV1,
  validators: SchemaValidators,
): CompiledInput {
  const read = standardReader(schema);
  if (hasJsonSchema(schema))
    return compileForeignSchema(
      declaration,
      { convert: () => schema['~standard'].jsonSchema.input({ target: 'draft-07' }), read },
      validators,
    );
  const problem = `The input is a schema of ${schema['~standard'].vendor}, which cannot be converted to JSON Schema.`;
  const remedy =
    'Use a version that follows Standard JSON Schema, as Zod does from 4.2, or wrap it as its library documents, or give a JSON Schema.';
  return unusableInput(declaration, { problem, remedy });
}

/** A schema from outside, unchecked. */
interface ForeignSchema {
  readonly convert: () => object;
  /** The reader of the schema's own library, if it has one. */
  readonly read?: ToolInputCodec['read'];
}

function compileForeignSchema(
  declaration: Declaration,
  { convert, read }: ForeignSchema,
  validators: SchemaValidators,
): CompiledInput {
  try {
    const schema = closedSchema(convert());
    validators.letBacktrack(schema); // which of its patterns may is said where the tool is known
    return schemaFindings(declaration.at, schema, validators).length > 0
      ? unusableInput(declaration, ...declaredFindings(declaration.at, schema, validators))
      : compileSchemaInput({ ...declaration, schema, ...(read && { read }) });
  } catch (error) {
    const remedy =
      'Take only what JSON has: text, numbers, booleans, lists and objects; a date is text, which a transform may turn into a Date.';
    return unusableInput(declaration, {
      problem: `The input has no JSON Schema: ${error instanceof Error ? error.message : String(error)}`,
      remedy,
    });
  }
}

/**
 * Normalises a JSON Schema from outside: a copy without `$schema`, with `$defs` for the older
 * `definitions`, without unions with null, and closed. An object that declares properties accepts
 * no others unless it sets `additionalProperties` itself; a nested one that declares none stays
 * free-form.
 *
 * @throws TypeError if the schema is not a JSON object
 */
export function closedSchema(source: object): JSONSchema7 {
  const json: unknown = toJson(source);
  if (!isRecord(json)) throw new TypeError('it is not a JSON object');
  const { $schema: _, definitions, $defs, ...given } = json;
  const named = { ...(isRecord(definitions) && definitions), ...(isRecord($defs) && $defs) };
  const whole = withRoot(given, named);
  const declared = whole['properties'] === undefined && { properties: {} };
  const definitionsOf = Object.keys(named).length > 0 && { $defs: named };
  return new NullUnions(named, closed).read({ ...whole, ...declared, ...definitionsOf });
}

/**
 * Writes out the definition that a whole refers to, as the schema of a model that contains itself
 * does.
 */
export function withRoot(whole: JsonSchema, named: JsonSchema): JsonSchema {
  const { $ref, ...rest } = unionIn(whole)?.schema ?? whole;
  const name = nameIn($ref);
  const root = name !== undefined && Object.hasOwn(named, name) ? named[name] : undefined;
  return isRecord(root) && root['$ref'] === undefined ? { ...root, ...rest } : whole;
}

/** Reads the name of the definition that a reference is about, in the older form as well. */
function nameIn(reference: unknown): string | undefined {
  return typeof reference === 'string'
    ? definitionNamed(reference.replace(/^#\/definitions\//, '#/$defs/'))
    : undefined;
}

/** Closes one object of a schema, but not its parts. */
function closed({ $ref, ...schema }: JsonSchema): JsonSchema {
  if (typeof $ref === 'string')
    return { ...schema, $ref: $ref.replace(/^#\/definitions\//, '#/$defs/') };
  const open =
    isRecord(schema['properties']) &&
    schema['additionalProperties'] === undefined &&
    $ref === undefined;
  return open
    ? { ...schema, additionalProperties: false }
    : { ...schema, ...($ref !== undefined && { $ref }) };
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
function unionIn(source: JsonSchema): Union | undefined {
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
