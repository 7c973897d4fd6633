import { ConfigurationError, type Finding } from '../protocol/errors.js';
import { isRecord } from '../protocol/object.guards.js';
import type { OptionValue } from './option-values.js';
import { unknownOptions } from './unknown-options.js';

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
