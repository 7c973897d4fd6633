import { isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { toJson } from './canonical-json.js';
import { type JsonSchema, nameIn, NullUnions, unionIn } from './null-unions.js';

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
