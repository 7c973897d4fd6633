import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { JsonValue } from '@toolloop/protocol';

/** Returns the schema of the values that a test accepts. */
export function schemaOf<Value extends JsonValue>(
  accepts: (value: unknown) => value is Value,
): StandardSchemaV1<unknown, Value> {
  return {
    '~standard': {
      version: 1,
      vendor: 'toolloop',
      validate: (value) =>
        accepts(value) ? { value } : { issues: [{ message: 'is not accepted' }] },
    },
  };
}
