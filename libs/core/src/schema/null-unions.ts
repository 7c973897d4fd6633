import { isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { NullUnions } from './raw-input.js';

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
