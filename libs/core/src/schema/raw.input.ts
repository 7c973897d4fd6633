import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { JSONSchema7 } from 'json-schema';
import type { RawInput } from '../decorators/raw-tool.declaration.js';
import type { Finding } from '../protocol/errors.js';
import type { ToolInputCodec } from '../protocol/tool.js';
import { closedSchema } from './from-raw-schema.js';
import { isRecord } from '../protocol/object.guards.js';
import { subsetProblems } from './schema.subset.js';
import type { SchemaValidators } from './schema.validators.js';
import { isStandardSchema, saysJsonSchema, standardReader } from './standard.input.js';
import {
  compileDtoInput,
  compileSchemaInput,
  isDtoClass,
  NO_ARGUMENTS,
  unusableInput,
  type CompiledInput,
  type Declaration,
} from './tool.input.js';

const SUBSET_REMEDY =
  'Use types, enums, bounds, patterns, formats, nested objects and arrays only. For a nullable argument take an optional one, of which null means "not given"; for a union, one object with an enum, or one tool per kind.';

type RawDeclaration = Declaration & { readonly input: RawInput | undefined };

/** The input of a tool that is no method: a DTO class, a Standard Schema, a JSON Schema, or no arguments. Of `reserved`, leave out what the tool was allowed. */
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
  if (saysJsonSchema(schema))
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

/** A schema from outside, which may be anything. */
interface ForeignSchema {
  readonly convert: () => object;
  /** Where the schema's own library makes what the tool receives. */
  readonly read?: ToolInputCodec['read'];
}

function compileForeignSchema(declaration: Declaration, { convert, read }: ForeignSchema, validators: SchemaValidators): CompiledInput {
  try {
    const schema = closedSchema(convert());
    const findings = schemaFindings(schema, validators);
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

function schemaFindings(schema: JSONSchema7, validators: SchemaValidators): Omit<Finding, 'at'>[] {
  const outside = subsetProblems(schema).map(({ pointer, problem }) => ({
    problem: `The input schema leaves the supported subset at "${pointer}": ${problem}.`,
    remedy: SUBSET_REMEDY,
  }));
  if (outside.length > 0) return outside;
  const broken = validators.problemWith(schema);
  return broken === undefined ? [] : [{ problem: `The input schema cannot be used: ${broken}.`, remedy: 'Correct the schema.' }];
}
