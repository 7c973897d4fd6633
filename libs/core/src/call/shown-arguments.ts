import type { JsonObject, JsonValue } from '@toolloop/protocol';

/** Arguments as the ui may see them. */
export function shownArguments(args: JsonObject, hidden: readonly string[]): JsonObject {
  if (hidden.length === 0) return args;
  const entries = Object.entries(args).map(([name, value]): [string, JsonValue] => [
    name,
    hidden.includes(name) ? '[redacted]' : value,
  ]);
  return Object.fromEntries(entries);
}
