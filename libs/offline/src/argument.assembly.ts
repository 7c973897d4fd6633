import type { JsonObject, JsonValue } from '@toolloop/core';
import type { Leaf } from './argument.leaves.js';
import { isJson, isJsonObject, type Schema } from './json.js';
import { accepts } from './schema.check.js';

/** An argument and its value. */
export type Entry = readonly [leaf: Leaf, value: JsonValue];

/** The value a schema leaves no choice about: a constant, a default, the only enum value, an object without known properties. */
export function fixedValue({ schema, type, root }: Leaf): JsonValue | undefined {
  const only: unknown = schema.enum?.length === 1 ? schema.enum[0] : undefined;
  const fixed: unknown[] = [schema.const, schema.default, only, type === 'object' ? {} : undefined];
  return fixed.filter(isJson).find((value) => accepts(schema, value, root));
}

/** Builds the arguments; a nested object that would be incomplete is left out unless it is required. */
export function assembled(entries: readonly Entry[], schema: Schema): JsonObject {
  const args = new Map<string, JsonValue>();
  for (const [{ path }, value] of entries) {
    const [name = '', key] = path;
    args.set(name, key === undefined ? value : Object.fromEntries([...Object.entries(objectOf(args.get(name))), [key, value]]));
  }
  const required = new Set(schema.required ?? []);
  const kept = [...args].filter(([name, value]) => required.has(name) || accepts(schema.properties?.[name], value, schema));
  return Object.fromEntries(kept);
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
