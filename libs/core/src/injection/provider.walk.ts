import type { Type } from '@nestjs/common';
import { classOf, exposedPropertiesOf, isVisibleTo } from '../schema/exposed-properties.accessor.js';

/** Deeper than any result worth showing; the projection refuses such a result anyway. */
const MOST_LEVELS = 32;
/** So many objects are looked at in one result; the cap of injected tools is reached long before. */
const MOST_OBJECTS = 10_000;

/** Walks through what a result shows the model. Fields that are not exposed are never looked into. */
export class ProviderWalk {
  private readonly exposed = new WeakMap<Type, readonly string[]>();

  /**
   * Every object a result shows, in the order in which it shows them: the value itself, elements of lists, sets and maps, values of plain objects, and
   * the exposed fields of class instances.
   */
  *objectsIn(result: unknown): Generator<object> {
    const seen = new Set<object>();
    const open: { readonly value: unknown; readonly level: number }[] = [{ value: result, level: 0 }];
    for (let next = open.pop(); next; next = open.pop()) {
      const { value, level } = next;
      if (!isObject(value) || seen.has(value) || seen.size >= MOST_OBJECTS) continue;
      seen.add(value);
      yield value;
      if (level >= MOST_LEVELS) continue;
      for (const child of this.childrenOf(value).toReversed()) open.push({ value: child, level: level + 1 });
    }
  }

  private childrenOf(value: object): unknown[] {
    if (value instanceof Map) return [...value.values()];
    const type = classOf(value);
    if (!type || type === Object) return Object.values(value);
    if (isIterable(value)) return [...value];
    return this.exposedBy(type).map((property): unknown => Reflect.get(value, property));
  }

  private exposedBy(type: Type): readonly string[] {
    const known = this.exposed.get(type);
    if (known) return known;
    const visible = exposedPropertiesOf(type).filter((property) => !property.method && isVisibleTo(property, 'model'));
    const names = visible.map(({ property }) => property);
    this.exposed.set(type, names);
    return names;
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}
