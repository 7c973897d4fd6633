import type { Type } from '@nestjs/common';
import { isObject } from '@toolloop/protocol';
import {
  classOf,
  exposedPropertiesOf,
  type ExposedProperty,
  hiddenPropertiesOf,
  isVisibleTo,
  type Kinds,
  shapeFor,
} from '../../schema/exposed-properties.js';
import { kindFor } from '../../schema/result-projection.js';

/**
 * Visits the objects that a result shows the model. Fields that are not exposed are never visited.
 */
export class ProviderWalk {
  private readonly classes = new WeakMap<Type, ShownClass>();

  /**
   * Yields every object that a result shows, in the order of the result: the value itself, elements
   * of lists, sets and maps, values of plain objects, and the exposed fields of class instances. A
   * declared class decides what is exposed, also for instances of subclasses and for plain objects;
   * an instance's own class may hide some of it. Of several declared classes, it is that of the
   * object, as in a projection.
   */
  *objectsIn(result: unknown, returns?: Type): Generator<object> {
    const seen = new Set<object>();
    const open: Found[] = isObject(result)
      ? [{ value: result, declared: { type: returns }, level: 0 }]
      : [];
    for (let next = open.pop(); next && seen.size < MOST_OBJECTS; next = open.pop()) {
      const { value, level } = next;
      if (seen.has(value)) continue;
      seen.add(value);
      yield value;
      if (level < MOST_LEVELS) open.push(...this.childrenOf(next).toReversed());
    }
  }

  /** Returns the result itself, or the objects of a list, and nothing within them. */
  listedIn(result: unknown): readonly object[] {
    const items: readonly unknown[] = Array.isArray(result) ? result.flat(MOST_LEVELS) : [result];
    return items.slice(0, MOST_OBJECTS).filter(isObject);
  }

  /** Returns the objects within a value, without scalars. */
  private childrenOf({ value, declared, level }: Found): Found[] {
    const shown = value instanceof Map ? undefined : this.shownAs(value, declared);
    const children: Found[] = [];
    const add = (child: unknown, type: Declared): void => {
      if (isObject(child)) children.push({ value: child, declared: type, level: level + 1 });
    };
    if (shown) for (const one of shown) add(readProperty(value, one.property), one.declared);
    else if (isIterable(value))
      for (const item of firstOf(value instanceof Map ? value.values() : value))
        add(item, declared);
    else if (isPlain(value))
      for (const name of Object.keys(value)) add(readProperty(value, name), UNDECLARED);
    return children;
  }

  /**
   * Finds the class whose exposures decide what is shown of an object; undefined for lists and for
   * objects without such a class.
   */
  private shownAs(value: object, choice: Declared): ShownClass['properties'] | undefined {
    const declared = classFor(value, choice);
    const type = classOf(value);
    const own = type && this.shownBy(type);
    const speaksForItself = own?.exposesAnything === true;
    if (isIterable(value) && !speaksForItself) return undefined;
    if (declared && (!speaksForItself || value instanceof declared))
      return this.shownBy(declared).properties.filter(
        ({ property }) => own?.hidden.has(property) !== true,
      );
    return speaksForItself ? own.properties : undefined;
  }

  private shownBy(type: Type): ShownClass {
    const known = this.classes.get(type);
    if (known) return known;
    const exposed = exposedPropertiesOf(type);
    const visible = exposed.filter(
      (one) => !one.method && isVisibleTo(one, 'model') && mayHoldObjects(one),
    );
    const properties = visible.map((property) => ({
      property: property.property,
      declared: declaredFor(property),
    }));
    const shown = {
      exposesAnything: exposed.length > 0,
      properties,
      hidden: hiddenPropertiesOf(type, 'model'),
    };
    this.classes.set(type, shown);
    return shown;
  }
}

/** The deepest level that is visited, as in a projection: a deeper result is never shown. */
const MOST_LEVELS = 64;

/**
 * The most objects that are visited in one result; the cap of injected tools is reached long
 * before.
 */
const MOST_OBJECTS = 10_000;

const UNDECLARED: Declared = { type: undefined };

/**
 * The classes that a field or a tool declares for its objects: one, or several among which a
 * discriminator chooses.
 */
interface Declared {
  readonly type: Type | undefined;
  readonly kinds?: Kinds;
}

/** An object, with what is declared for it, and its level. */
interface Found {
  readonly value: object;
  readonly declared: Declared;
  readonly level: number;
}

/** The part of a class that the model sees. */
interface ShownClass {
  readonly exposesAnything: boolean;
  readonly properties: readonly { readonly property: string; readonly declared: Declared }[];
  /** The properties that it hides of its instances, whatever class is declared for them. */
  readonly hidden: ReadonlySet<string>;
}

/** Returns the items of an iterable until it fails or reaches the limit. */
function firstOf(items: Iterable<unknown>): readonly unknown[] {
  const first: unknown[] = [];
  try {
    for (const item of items) {
      first.push(item);
      if (first.length >= MOST_OBJECTS) break;
    }
  } catch {
    // the items before the failure were shown
  }
  return first;
}

/**
 * Reads a property. A getter that returned its value when the result was shown may throw when it is
 * read again.
 */
export function readProperty(value: object, property: string): unknown {
  try {
    return Reflect.get(value, property);
  } catch {
    return undefined;
  }
}

/** Finds the one that decides about a value of the classes that are declared for it. */
function classFor(value: object, { type, kinds }: Declared): Type | undefined {
  const kind = kinds && kindFor(value, kinds);
  return kind ? kind.type : type;
}

function declaredFor(property: ExposedProperty): Declared {
  const shape = property.shape();
  return {
    type: property.nested(),
    ...(shape.kind === 'class' && shape.kinds && { kinds: shape.kinds }),
  };
}

/** A property that is declared as a scalar shows no object, whatever it holds. */
function mayHoldObjects(property: ExposedProperty): boolean {
  return shapeFor(property, 'model').kind !== 'scalar';
}

export function isPlain(value: object): boolean {
  const type = classOf(value);
  return type === undefined || type === Object;
}

export function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}
