import { isRecord } from './json.js';

/**
 * Lets `instanceof` hold for the instances of the same class in another copy of its package, which
 * a pinned dependency brings along. The classes that extend it are told apart as ever.
 *
 * @param name unique among the packages of Toolloop
 */
export function recogniseCopies(name: string, type: AnyClass): void {
  const brand = Symbol.for(`@toolloop/protocol/${name}@${FORM}`);
  Object.defineProperty(type.prototype, brand, { value: true });
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: AnyClass, value: unknown): boolean {
      if (this !== type) return Function.prototype[Symbol.hasInstance].call(this, value);
      return typeof value === 'object' && value !== null && brand in value;
    },
  });
}

/** The place where all copies of a package in this process meet. */
const COPIES = Symbol.for('@toolloop/copies');

/**
 * The form of what the copies of a package share; raised where a class changes so that another copy
 * cannot work with it.
 */
const FORM = 1;

type AnyClass = abstract new (...args: never[]) => object;

/** Notes the address of a copy of a package, by which a finding can name it. */
export function registerCopy(name: string, address: string): void {
  copies()[address] = name;
}

/** Returns a sentence that names the copies of a package; undefined where there is one. */
export function duplicatesOf(name: string): string | undefined {
  const addresses = Object.entries(copies()).flatMap(([address, of]) =>
    of === name ? [address] : [],
  );
  if (addresses.length < 2) return undefined;
  return `There are ${addresses.length} copies of ${name}: ${addresses.join(' and ')}. Find the package that pins its own with "npm ls ${name}", and let all use one version.`;
}

/** The names of the packages by the addresses of their copies. */
function copies(): Record<string, unknown> {
  const known: unknown = Reflect.get(globalThis, COPIES);
  if (isRecord(known)) return known;
  const made = {};
  Reflect.set(globalThis, COPIES, made);
  return made;
}

registerCopy('@toolloop/protocol', import.meta.url);
