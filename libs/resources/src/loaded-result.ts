import { types } from 'node:util';
import { isForStore, shownNamesOf } from './kept-result.js';

/**
 * Reads the rows of a collection of the ORM: `'unloaded'` if they were not loaded, undefined for
 * any other value.
 */
export type RowsIn = (value: object) => readonly unknown[] | 'unloaded' | undefined;

/**
 * Returns the result of a tool that reads without the collections that were not loaded, of which
 * reading would fail. An object that holds none of them is returned as it is; one that does is
 * copied without them.
 */
export function dropUnloaded<Result>(value: Result, rowsIn: RowsIn): Result;
export function dropUnloaded(value: unknown, rowsIn: RowsIn): unknown {
  return new LoadedParts(rowsIn).of(value);
}

interface Part {
  readonly name: string;
  readonly value: unknown;
  readonly loaded: unknown;
}

class LoadedParts {
  /** Each object that was met. One that is a part of itself is refused when it is described. */
  private readonly met = new Map<object, unknown>();

  constructor(private readonly rowsIn: RowsIn) {}

  of(value: unknown): unknown {
    if (typeof value !== 'object' || value === null || isForStore(value)) return value;
    if (this.met.has(value)) return this.met.get(value);
    this.met.set(value, value);
    const loaded = this.loaded(value);
    this.met.set(value, loaded);
    return loaded;
  }

  private loaded(value: object): unknown {
    if (types.isMap(value)) return this.ofMap(value);
    const rows = Array.isArray(value) || types.isSet(value) ? [...value] : this.rowsIn(value);
    if (rows === 'unloaded') return undefined;
    return rows ? this.ofList(value, rows) : this.ofObject(value);
  }

  private ofMap(map: ReadonlyMap<unknown, unknown>): unknown {
    const entries = [...map].map(([key, one]) => [key, this.of(one)] as const);
    return entries.every(([key, one]) => map.get(key) === one) ? map : new Map(entries);
  }

  private ofList(list: object, items: readonly unknown[]): unknown {
    const loaded = items.map((one) => this.of(one));
    return loaded.every((one, index) => one === items[index]) ? list : loaded;
  }

  private ofObject(value: object): object {
    const parts = shownNamesOf(value).flatMap((name) => this.partOf(value, name));
    return parts.every((part) => part.loaded === part.value) ? value : copyWith(value, parts);
  }

  /** None if the property cannot be read: the description of the result says why. */
  private partOf(owner: object, name: string): Part | [] {
    try {
      const value: unknown = Reflect.get(owner, name);
      return { name, value, loaded: this.of(value) };
    } catch {
      return [];
    }
  }
}

/** Copies an instance with all that it has, and these parts as they were loaded. */
function copyWith(value: object, parts: readonly Part[]): object {
  const own: PropertyDescriptorMap = Object.getOwnPropertyDescriptors(value);
  for (const { name, loaded } of parts)
    own[name] = { value: loaded, enumerable: true, configurable: true, writable: true };
  const copy = Object.defineProperties({}, own);
  Reflect.setPrototypeOf(copy, Reflect.getPrototypeOf(value));
  return copy;
}
