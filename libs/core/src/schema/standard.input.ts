import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { StandardInput } from '../decorators/raw-tool.declaration.js';
import type { JsonObject } from '../protocol/json.js';
import { isObject } from '../protocol/object.guards.js';
import type { ArgumentProblem, InputReading } from '../protocol/tool.js';
import { pointerSegment } from './argument-problems.js';

const MAX_PROBLEMS = 10;

/** Whether a value follows Standard Schema; such a value may be a function. It may yet be unable to say itself as JSON Schema. */
export function isStandardSchema(value: unknown): value is StandardSchemaV1 {
  const standard = standardOf(value);
  return isObject(standard) && 'validate' in standard && typeof standard.validate === 'function';
}

/** Whether a Standard Schema can say itself as JSON Schema. */
export function saysJsonSchema(schema: StandardSchemaV1): schema is StandardInput {
  const standard: object = schema['~standard'];
  return 'jsonSchema' in standard && isObject(standard.jsonSchema);
}

/** Validates by the schema's own library. What it makes of the arguments, transforms and all, is what the tool receives. */
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
