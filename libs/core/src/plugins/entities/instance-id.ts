import type { EntityDefinition } from './entity-registry.js';

/** An instance's id as text; undefined when it has none. */
export function instanceIdOf(definition: EntityDefinition, instance: object): string | undefined {
  return instanceIdIn(instance, definition.idProperty);
}

/** The property or method that identifies an instance, or several that do together. */
export type IdProperty = string | readonly string[];

/**
 * An instance's id as text; undefined when it has none. A text stands as it is, and a number as its
 * digits. Several values, in a list or in a plain object, are their JSON without spaces, an
 * object's names in order: `["o-1",3]`, `{"line":3,"order":"o-1"}`.
 */
export function instanceIdIn(instance: object, idProperty: IdProperty): string | undefined {
  if (typeof idProperty !== 'string')
    return listText(idProperty.map((name) => valueOf(instance, name)));
  const value = plainOf(valueOf(instance, idProperty));
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (typeof value === 'number' || typeof value === 'bigint') return partText(value);
  if (Array.isArray(value)) return listText(value);
  return isPlainObject(value) ? objectText(value) : undefined;
}

/** Describes the identity of an instance, for people and models. */
export function idWords(idProperty: IdProperty): string {
  if (typeof idProperty === 'string') return `its ${idProperty}`;
  return `its ${idProperty.join(' and ')} as a JSON list, such as ${JSON.stringify(idProperty.map(() => '…'))}`;
}

function valueOf(instance: object, name: string): unknown {
  const member: unknown = Reflect.get(instance, name);
  return typeof member === 'function' ? Reflect.apply(member, instance, []) : member;
}

/** The ids of some databases are objects with a `toJSON` method. */
function plainOf(value: unknown): unknown {
  if (
    typeof value !== 'object' ||
    value === null ||
    !('toJSON' in value) ||
    typeof value.toJSON !== 'function'
  )
    return value;
  const said: unknown = Reflect.apply(value.toJSON, value, []);
  return said;
}

function listText(values: readonly unknown[]): string | undefined {
  const parts = values.map(partText);
  return parts.length > 0 && !parts.includes(undefined) ? `[${parts.join(',')}]` : undefined;
}

function objectText(value: object): string | undefined {
  const parts = Object.entries(value).map(([name, part]: [string, unknown]) => ({
    name: JSON.stringify(name),
    text: partText(part),
  }));
  if (parts.length === 0 || parts.some(({ text }) => text === undefined)) return undefined;
  const sorted = parts.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return `{${sorted.map(({ name, text }) => `${name}:${text}`).join(',')}}`;
}

/** JSON of a scalar; undefined for what identifies nothing. */
function partText(value: unknown): string | undefined {
  const plain = plainOf(value);
  if (typeof plain === 'bigint') return String(plain);
  if (typeof plain === 'number') return Number.isFinite(plain) ? String(plain) : undefined;
  return typeof plain === 'string' || typeof plain === 'boolean'
    ? JSON.stringify(plain)
    : undefined;
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Reflect.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
