import { isObject } from '@toolloop/protocol';

/** Freezes a value with all that it holds, which must not hold itself. */
export function deepFreeze(value: unknown): void {
  if (!isObject(value)) return;
  for (const child of Object.values(value)) deepFreeze(child);
  Object.freeze(value);
}
