import { isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { NullUnions } from './raw-input.js';

/**
 * Reads the unions with null of a schema that is otherwise left as it is, such as that of a
 * source's tool. Returns the same object where there is none, or where the schema is no JSON.
 */
export function withoutNullUnions(schema: JSONSchema7): JSONSchema7 {
  try {
    if (!/"(?:any|one|all)Of"/.test(JSON.stringify(schema))) return schema;
    const definitions: unknown = schema.$defs;
    return new NullUnions(isRecord(definitions) ? definitions : {}, (read) => read).read({
      ...schema,
    });
  } catch {
    return schema; // it contains itself, or is deeper than the stack: a finding tells
  }
}
