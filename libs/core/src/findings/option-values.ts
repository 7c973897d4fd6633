import { isRecord } from '../protocol/object.guards.js';
/** The values an option takes, in words and as a test. */
export interface OptionValue {
  /** Behind "Give". */
  readonly wanted: string;
  accept(this: void, value: unknown): boolean;
}

export const BOOLEAN: OptionValue = { wanted: 'true or false', accept: (value) => typeof value === 'boolean' };
export const TEXT: OptionValue = { wanted: 'a text', accept: (value) => typeof value === 'string' };
export const FUNCTION: OptionValue = { wanted: 'a function', accept: (value) => typeof value === 'function' };
export const OBJECT: OptionValue = { wanted: 'an object', accept: isRecord };
export const NUMBER: OptionValue = { wanted: 'a number', accept: Number.isFinite };
export const NOT_NEGATIVE: OptionValue = {
  wanted: 'a number that is not negative',
  accept: (value) => typeof value === 'number' && value >= 0,
};
export const ABOVE_ZERO: OptionValue = { wanted: 'a number above 0', accept: (value) => typeof value === 'number' && value > 0 };
export const WHOLE_ABOVE_ZERO: OptionValue = { wanted: 'a whole number, 1 or more', accept: (value) => isWhole(value, 1) };

/** Of a class that cannot be told from a function by its looks: what is called with `new` and has a prototype. */
export const CLASS: OptionValue = {
  wanted: 'a class',
  accept: (value) => typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null,
};

/** Of an abstract class whose method it has, whether it inherits it or not. */
export function whatCan(method: string, wanted: string): OptionValue {
  return { wanted, accept: (value) => isRecord(value) && typeof Reflect.get(value, method) === 'function' };
}

export function oneOf(...values: readonly string[]): OptionValue {
  return {
    wanted: values.map((value) => `'${value}'`).join(' or '),
    accept: (value) => typeof value === 'string' && values.includes(value),
  };
}

export function listOf({ accept }: OptionValue, wanted: string): OptionValue {
  return { wanted, accept: (value) => Array.isArray(value) && value.every(accept) };
}

export function either(one: OptionValue, other: OptionValue): OptionValue {
  return { wanted: `${one.wanted} or ${other.wanted}`, accept: (value) => one.accept(value) || other.accept(value) };
}

function isWhole(value: unknown, least: number): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least;
}
