import type { JsonValue } from '@toolloop/core';

/** What a tool's result, as a model is shown it, says. */
export function fromResult(content: string): JsonValue {
  return JSON.parse(content) as JsonValue;
}
