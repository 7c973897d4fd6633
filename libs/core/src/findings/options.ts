import { ConfigurationError, type Finding, isRecord } from '@toolloop/protocol';
import { closest, distance } from 'fastest-levenshtein';

/** The values of every option there is, by its name: the compiler sees to it that none is missing. */
export type OptionValues<Options> = Readonly<Record<Options extends unknown ? keyof Options : never, OptionValue>>;

type KnownValues = Readonly<Record<string, OptionValue>>;

/** Options that do not exist, values that one does not take, and those that are `needed` and missing; or that they are no options at all. */
export function optionFindings(given: unknown, known: KnownValues, at: string, needed: readonly string[] = []): Finding[] {
  if (!isRecord(given)) return [{ at, problem: `Its options are ${inWords(given)}.`, remedy: 'Give an object.' }];
  const names = Object.fromEntries(Object.keys(known).map((name) => [name, true as const]));
  const missing = needed.filter((name) => Reflect.get(given, name) === undefined);
  return [
    ...unknownOptions(given, names, at),
    ...valueFindings(given, known, at),
    ...missing.map((name) => ({ at, problem: `It has no "${name}".`, remedy: `Give ${known[name]?.wanted}.` })),
  ];
}

/** Throws the same as a `ConfigurationError`, for what is made before an application starts. */
export function assertOptions(given: unknown, known: KnownValues, at: string): void {
  const findings = optionFindings(given, known, at);
  if (findings.length > 0) throw new ConfigurationError(findings);
}

/** Values that an option does not take. What is undefined was left out; what is not in the table is checked elsewhere. */
export function valueFindings(given: object, known: KnownValues, at: string): Finding[] {
  return wrongIn(given, known).map(([name, { wanted }]) => ({
    at,
    problem: `The option "${name}" is ${inWords(Reflect.get(given, name))}.`,
    remedy: `Give ${wanted}, or leave it out.`,
  }));
}

/** Those without such values: what else is wrong with them can be told as well. */
export function withoutWrong<Options extends object>(given: Options, known: KnownValues): Partial<Options> {
  const sound: Partial<Options> = { ...given };
  for (const [name] of wrongIn(given, known)) Reflect.deleteProperty(sound, name);
  return sound;
}

function wrongIn(given: object, known: KnownValues): readonly (readonly [string, OptionValue])[] {
  return Object.entries(known).filter(([name, { accept }]) => {
    const value: unknown = Reflect.get(given, name);
    return value !== undefined && !accept(value);
  });
}

/** A value as a finding names it, which tells no more than it has to. */
export function inWords(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, MOST_CHARACTERS));
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  return isRecord(value) ? 'an object' : String(value);
}

const MOST_CHARACTERS = 64;

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

function isWhole(value: unknown, least: number): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least;
}

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

/** What to write in the place of a wrong name: the nearest of those there are, or where none is near all of them. */
export function nearestName(wrong: string, known: readonly string[]): string {
  if (known.length === 0) return 'There are none.';
  const nearest = closest(wrong, known);
  const isNear = distance(wrong, nearest) <= Math.max(wrong.length, nearest.length) * 0.4;
  return isNear ? `Did you mean "${nearest}"?` : `There are: ${known.join(', ')}.`;
}

/** Every option there is, by its name: the compiler sees to it that none is missing. */
export type OptionNames<Options> = Readonly<Record<Options extends unknown ? keyof Options : never, true>>;

/** Options that do not exist, which would be passed over in silence. `what` is said of them: "option", "label". */
export function unknownOptions(given: unknown, known: Readonly<Record<string, true>>, at: string, what = 'option'): Finding[] {
  if (typeof given !== 'object' || given === null) return [];
  return Object.keys(given)
    .filter((name) => !Object.hasOwn(known, name))
    .map((name) => ({ at, problem: `There is no ${what} "${name}".`, remedy: nearestName(name, Object.keys(known)) }));
}
