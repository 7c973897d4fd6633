import type { StandardSchemaV1 } from '@standard-schema/spec';
import { isRecord } from '@toolloop/protocol';
import type { ToolInputCodec } from '../contracts/tool.js';
import type { RawInput } from '../tools/decorators/raw-tool.js';
import { closedSchema } from './closed-schema.js';
import { hasJsonSchema, isStandardSchema, standardReader } from './standard-schema.js';
import { declaredFindings, schemaFindings } from './subset.js';
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
