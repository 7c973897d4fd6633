import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type ArgumentProblem, isObject, isRecord, type JsonObject } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { InputReading, ToolInputCodec } from '../contracts/tool.js';
import type { RawInput, StandardInput } from '../decorators/raw-tool.js';
import { toJson } from './canonical-json.js';
import { NAMED_SCHEMAS, ONE_SCHEMA, schemaFindings } from './subset.js';
import {
  type CompiledInput,
  compileDtoInput,
  compileSchemaInput,
  type Declaration,
  isDtoClass,
  NO_ARGUMENTS,
  unusableInput,
} from './tool-input.js';
import { pointerSegment, type SchemaValidators } from './validators.js';

/** A schema of which only the keywords are known. */
type JsonSchema = Readonly<Record<string, unknown>>;

type RawDeclaration = Declaration & { readonly input: RawInput | undefined };

/** Compiles the input of a tool that is not a method: a DTO class, a Standard Schema, a JSON Schema, or no arguments. `reserved` must not hold the names that the tool is allowed. */
export function compileRawInput({ at, reserved, input }: RawDeclaration, validators: SchemaValidators): CompiledInput {
  const declaration = { at, reserved };
  const given: unknown = input;
  if (given === undefined) return compileSchemaInput({ ...declaration, schema: NO_ARGUMENTS });
  if (isStandardSchema(given)) return compileStandardInput(declaration, given, validators); // first: it may be a function, or a class
  if (isDtoClass(given)) return compileDtoInput({ ...declaration, type: given });
  if (isRecord(given)) return compileForeignSchema(declaration, { convert: () => given }, validators);
  const remedy =
    'Give a DTO class, a Standard Schema such as z.object({ … }), or a JSON Schema of type "object"; leave it out for no arguments.';
  return unusableInput(declaration, { problem: 'The input is neither a class nor a schema.', remedy });
}

function compileStandardInput(declaration: Declaration, schema: StandardSchemaV1, validators: SchemaValidators): CompiledInput {
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

function compileForeignSchema(declaration: Declaration, { convert, read }: ForeignSchema, validators: SchemaValidators): CompiledInput {
  try {
    const schema = closedSchema(convert());
    const findings = schemaFindings(declaration.at, schema, validators);
    return findings.length > 0
      ? unusableInput(declaration, ...findings)
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
 * Normalises a JSON Schema from outside: a copy without `$schema`, with `$defs` for the older `definitions`, without unions with null, and closed. An object that
 * declares properties accepts no others unless it sets `additionalProperties` itself; a nested one that declares none stays free-form.
 *
 * @throws TypeError if the schema is not a JSON object
 */
export function closedSchema(source: object): JSONSchema7 {
  const json: unknown = toJson(source);
  if (!isRecord(json)) throw new TypeError('it is not a JSON object');
  const { $schema: _, definitions, $defs, ...whole } = json;
  const named = { ...(isRecord(definitions) && definitions), ...(isRecord($defs) && $defs) };
  const declared = whole['properties'] === undefined && { properties: {} };
  return closed({ ...whole, ...declared, ...(Object.keys(named).length > 0 && { $defs: named }) }) as JSONSchema7;
}

function closed(source: unknown): unknown {
  if (!isRecord(source)) return source;
  const { $ref, ...schema } = rewritten(withoutNullUnion(source), closed);
  if (typeof $ref === 'string') return { ...schema, $ref: $ref.replace(/^#\/definitions\//, '#/$defs/') };
  const open = isRecord(schema['properties']) && schema['additionalProperties'] === undefined && $ref === undefined;
  return open ? { ...schema, additionalProperties: false } : { ...schema, ...($ref !== undefined && { $ref }) };
}

/** Rewrites the direct subschemas of a schema. Values such as `default` and `enum` are data, and stay as they are. */
function rewritten(schema: JsonSchema, rewrite: (subschema: unknown) => unknown): JsonSchema {
  const within = (keyword: string, value: unknown): unknown => {
    if (ONE_SCHEMA.includes(keyword)) return rewrite(value);
    if (!NAMED_SCHEMAS.includes(keyword) || !isRecord(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, child]) => [name, rewrite(child)]));
  };
  return Object.fromEntries(Object.entries(schema).map(([keyword, value]) => [keyword, within(keyword, value)]));
}

/**
 * Reads the unions with null of a schema that is otherwise left as it is, such as that of a source's tool. Returns the same object where there is none, or where the
 * schema is no JSON.
 */
export function withoutNullUnions(schema: JSONSchema7): JSONSchema7 {
  const read = (source: unknown): unknown => (isRecord(source) ? rewritten(withoutNullUnion(source), read) : source);
  try {
    return JSON.stringify(schema).includes('"anyOf"') ? (read(schema) as JSONSchema7) : schema;
  } catch {
    return schema; // it contains itself, or is deeper than the stack: a finding tells
  }
}

function withoutNullUnion(schema: JsonSchema): JsonSchema {
  const nullable = nullableIn(schema);
  return withOptionals((nullable && orNull(nullable)) ?? schema);
}

/** Reads T with its surroundings from `anyOf: [T, null]`, which is how pydantic writes an optional value; undefined for any other schema. */
function nullableIn({ anyOf, ...rest }: JsonSchema): JsonSchema | undefined {
  const branches = Array.isArray(anyOf) ? anyOf.filter(isRecord) : [];
  const [value, ...others] = branches.filter(({ type }) => type !== 'null');
  return value && others.length === 0 && branches.length === 2 ? { ...value, ...rest } : undefined;
}

/** Adds null to the types of a schema; undefined for a reference, which has none. */
function orNull({ type, enum: values, ...rest }: JsonSchema): JsonSchema | undefined {
  if (type === undefined) return undefined;
  const listed: readonly unknown[] | undefined = Array.isArray(values) ? values : undefined;
  return { ...rest, type: [...new Set([type, 'null'].flat())], ...(listed && { enum: [...listed, null] }) };
}

/**
 * Reads the properties of an object that are T or null. One that may be left out is T: null means "not given", and so does a default of null. One that must be given
 * keeps null among its types; where these are unknown it may be left out.
 */
function withOptionals(schema: JsonSchema): JsonSchema {
  const { properties, required } = schema;
  if (!isRecord(properties)) return schema;
  const needed = new Set<unknown>(Array.isArray(required) ? required : []);
  const read = ([name, property]: [string, unknown]): [string, unknown] => {
    const nullable = isRecord(property) ? nullableIn(property) : undefined;
    if (!nullable) return [name, property];
    const kept = needed.has(name) ? orNull(nullable) : undefined;
    if (!kept) needed.delete(name);
    return [name, kept ?? withoutNullDefault(nullable)];
  };
  return {
    ...schema,
    properties: Object.fromEntries(Object.entries(properties).map(read)),
    ...(required !== undefined && { required: [...needed] }),
  };
}

function withoutNullDefault({ default: given, ...rest }: JsonSchema): JsonSchema {
  return given === null ? rest : { ...rest, ...(given !== undefined && { default: given }) };
}

const MAX_PROBLEMS = 10;

/** Tells whether a value follows Standard Schema; it may be a function, and may lack a JSON Schema. */
export function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  const standard = standardOf(value);
  return isObject(standard) && 'validate' in standard && typeof standard.validate === 'function';
}

/** Tells whether a Standard Schema can be converted to JSON Schema. */
export function hasJsonSchema(schema: StandardSchemaV1): schema is StandardInput {
  const standard: object = schema['~standard'];
  return 'jsonSchema' in standard && isObject(standard.jsonSchema);
}

/** Makes a reader that validates by the schema's own library. The tool receives that library's output, with its transforms. */
export function standardReader(schema: StandardSchemaV1): (args: JsonObject) => InputReading | Promise<InputReading> {
  return (args) => {
    const result = schema['~standard'].validate(args);
    return 'then' in result ? Promise.resolve(result).then(toReading) : toReading(result);
  };
}

function toReading(result: StandardSchemaV1.Result<unknown>): InputReading {
  if (!result.issues) return { value: result.value };
  const problems = result.issues.slice(0, MAX_PROBLEMS).map(toProblem);
  return { problems: problems.length > 0 ? problems : [{ pointer: '', message: 'is not valid' }] };
}

function toProblem({ message, path = [] }: StandardSchemaV1.Issue): ArgumentProblem {
  const keys = path.map((segment) => (typeof segment === 'object' ? segment.key : segment));
  return { pointer: keys.map((key) => pointerSegment(String(key))).join(''), message };
}

function standardOf(value: unknown): unknown {
  const carrier = typeof value === 'function' || isObject(value) ? value : {};
  return Reflect.get(carrier, '~standard');
}
