/**
 * A value that JSON can carry. Every result that leaves a tool is one of these, whatever the tool
 * returned.
 */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export function isJsonList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Tells whether a value is an object of any kind, a list included. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/**
 * Tells whether a value nests objects and lists deeper than a number of levels. It visits level by
 * level, to protect the stack.
 */
export function isDeeperThan(levels: number, value: unknown): boolean {
  let level: object[] = isObject(value) ? [value] : [];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth >= levels) return true;
    const next: object[] = [];
    for (const container of level) addObjects(Object.values(container), next);
    level = next;
  }
  return false;
}

function addObjects(values: readonly unknown[], to: object[]): void {
  for (const value of values) if (isObject(value)) to.push(value);
}

/** Tells whether a value is an object and not a list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && !Array.isArray(value);
}

/**
 * Tells whether a provider's value, or one of a page that it quotes, is a web address, so that a
 * link to it cannot run a script.
 */
export function isWebAddress(url: unknown): url is string {
  return typeof url === 'string' && /^https?:\/\//i.test(url);
}
