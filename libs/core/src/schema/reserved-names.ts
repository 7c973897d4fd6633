import type { JsonValue } from '@toolloop/protocol';
import { pointerSegment } from './argument-problems.js';

/**
 * Finds the JSON pointer of the first key, at any depth, that no model may send; undefined when
 * there is none. Case, `_` and `-` make no difference.
 */
export function reservedNamesIn(value: JsonValue, reserved: readonly string[]): string | undefined {
  const names = comparableSet(reserved);
  const pending: { readonly value: unknown; readonly pointer: string }[] = [{ value, pointer: '' }];
  for (let place = pending.pop(); place; place = pending.pop()) {
    const entries = entriesOf(place.value);
    const keyed = !Array.isArray(place.value);
    const found = keyed ? entries.find(([key]) => names.has(comparable(key))) : undefined;
    if (found) return place.pointer + pointerSegment(found[0]);
    for (const [key, child] of entries.toReversed()) {
      if (typeof child === 'object' && child !== null)
        pending.push({ value: child, pointer: place.pointer + pointerSegment(key) });
    }
  }
  return undefined;
}

const entriesOf = (value: unknown): [string, unknown][] =>
  typeof value === 'object' && value !== null ? Object.entries(value) : [];

/** Tells whether an argument has a name that no model may send. */
export function isReserved(name: string, reserved: readonly string[]): boolean {
  return comparableSet(reserved).has(comparable(name));
}

const comparableSets = new WeakMap<readonly string[], ReadonlySet<string>>();

/**
 * Returns names in comparable form, cached by list: it is called for every argument of every tool
 * and for every call, always with the same few lists.
 */
function comparableSet(names: readonly string[]): ReadonlySet<string> {
  const known = comparableSets.get(names) ?? new Set(names.map(comparable));
  comparableSets.set(names, known);
  return known;
}

const comparable = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, '');
