import type { Type } from '@nestjs/common';
import { classOf, exposedPropertiesOf, isVisibleTo } from '../schema/exposed-properties.accessor.js';
import { isObject } from '../protocol/object.guards.js';

/** As deep as a projection goes: a deeper result is never shown. */
const MOST_LEVELS = 64;
/** So many objects are looked at in one result; the cap of injected tools is reached long before. */
const MOST_OBJECTS = 10_000;

/** An object, with the class its field or tool declares. */
interface Found {
  readonly value: object;
  readonly declared: Type | undefined;
}

/** How deep it was found. */
interface Placed extends Found {
  readonly level: number;
}

/** What a class shows the model. */
interface ShownClass {
  readonly exposesAnything: boolean;
  readonly properties: readonly { readonly property: string; readonly declared: Type | undefined }[];
}

/** Walks through what a result shows the model. Fields that are not exposed are never looked into. */
export class ProviderWalk {
  private readonly classes = new WeakMap<Type, ShownClass>();

  /**
   * Every object a result shows, in the order in which it shows them: the value itself, elements of lists, sets and maps, values of plain objects, and
   * the exposed fields of class instances. Where a class is declared, it says what is exposed, of instances of subclasses and of plain objects too.
   */
  *objectsIn(result: unknown, returns?: Type): Generator<object> {
    const seen = new Set<object>();
    const open: Placed[] = isObject(result) ? [{ value: result, declared: returns, level: 0 }] : [];
    for (let next = open.pop(); next && seen.size < MOST_OBJECTS; next = open.pop()) {
      const { value, declared, level } = next;
      if (seen.has(value)) continue;
      seen.add(value);
      yield value;
      if (level >= MOST_LEVELS) continue;
      for (const child of this.childrenOf(value, declared).toReversed()) open.push({ ...child, level: level + 1 });
    }
  }

  /** The objects that stand in a result, or in a list that is one, and nothing within them. */
  listedIn(result: unknown): readonly object[] {
    const items: readonly unknown[] = Array.isArray(result) ? result.flat(MOST_LEVELS) : [result];
    return items.slice(0, MOST_OBJECTS).filter(isObject);
  }

  /** Scalars lead nowhere and are left out. */
  private childrenOf(value: object, declared: Type | undefined): Found[] {
    const shown = value instanceof Map ? undefined : this.shownAs(value, declared);
    const children: Found[] = [];
    const add = (child: unknown, type: Type | undefined): void => {
      if (isObject(child)) children.push({ value: child, declared: type });
    };
    if (shown) for (const one of shown.properties) add(readOf(value, one.property), one.declared);
    else for (const item of itemsOf(value)) add(item, isIterable(value) ? declared : undefined);
    return children;
  }

  /** The class whose exposures say what is shown of an object; undefined for lists and for objects that no class speaks for. */
  private shownAs(value: object, declared: Type | undefined): ShownClass | undefined {
    const type = classOf(value);
    const own = type && this.shownBy(type);
    const speaksForItself = own?.exposesAnything === true;
    if (isIterable(value) && !speaksForItself) return undefined;
    if (declared && (!speaksForItself || value instanceof declared)) return this.shownBy(declared);
    return speaksForItself ? own : undefined;
  }

  private shownBy(type: Type): ShownClass {
    const known = this.classes.get(type);
    if (known) return known;
    const exposed = exposedPropertiesOf(type);
    const visible = exposed.filter((property) => !property.method && isVisibleTo(property, 'model'));
    const properties = visible.map((property) => ({ property: property.property, declared: property.nested() }));
    const shown = { exposesAnything: exposed.length > 0, properties };
    this.classes.set(type, shown);
    return shown;
  }
}

/** Of a list, set or map its elements; of a plain object its values. No more than are looked at, since an iterable may have no end. */
function itemsOf(value: object): readonly unknown[] {
  if (value instanceof Map) return firstOf(value.values());
  if (isIterable(value)) return firstOf(value);
  return isPlain(value) ? Object.keys(value).map((name) => readOf(value, name)) : [];
}

/** What an iterable gives until it fails, or has given as much as is looked at. */
function firstOf(items: Iterable<unknown>): readonly unknown[] {
  const first: unknown[] = [];
  try {
    for (const item of items) {
      first.push(item);
      if (first.length >= MOST_OBJECTS) break;
    }
  } catch {
    // what came before it failed was shown
  }
  return first;
}

/** A getter that gave its value when the result was shown may throw when it is asked again. */
function readOf(value: object, property: string): unknown {
  try {
    return Reflect.get(value, property);
  } catch {
    return undefined;
  }
}

function isPlain(value: object): boolean {
  const type = classOf(value);
  return type === undefined || type === Object;
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}
