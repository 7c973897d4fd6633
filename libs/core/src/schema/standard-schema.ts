import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type ArgumentProblem, isObject, type JsonObject } from '@toolloop/protocol';
import type { InputReading } from '../contracts/tool.js';
import type { StandardInput } from '../tools/decorators/raw-tool.js';
import { pointerSegment } from './argument-problems.js';

/**
 * Tells whether a value follows Standard Schema; it may be a function, and may lack a JSON Schema.
 */
export function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  const standard = standardOf(value);
  return isObject(standard) && 'validate' in standard && typeof standard.validate === 'function';
}

const MAX_PROBLEMS = 10;

/** Tells whether a Standard Schema can be converted to JSON Schema. */
export function hasJsonSchema(schema: StandardSchemaV1): schema is StandardInput {
  const standard: object = schema['~standard'];
  return 'jsonSchema' in standard && isObject(standard.jsonSchema);
}

/**
 * Makes a reader that validates by the schema's own library. The tool receives that library's
 * output, with its transforms.
 */
export function standardReader(
  schema: StandardSchemaV1,
): (args: JsonObject) => InputReading | Promise<InputReading> {
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
