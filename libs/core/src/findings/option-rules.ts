import { duplicatesOf, type Finding, isRecord, LanguageModel, visible } from '@toolloop/protocol';
import { nearestIn } from './nearest-name.js';
import { type ChoiceRule, inWords, type OptionRule, OptionTable } from './options.js';

export const BOOLEAN: OptionRule<boolean> = {
  wanted: 'true or false',
  accept: (value) => typeof value === 'boolean',
};

type AnyFunction = (...args: never[]) => unknown;
type AnyClass = abstract new (...args: never[]) => unknown;

export const TEXT: OptionRule<string> = {
  wanted: 'a text',
  accept: (value) => typeof value === 'string',
};
/** A class is one too. */
export const LABEL: OptionRule<string> = {
  wanted: 'a text of 1 to 200 characters in one line, without invisible ones',
  accept: (value) =>
    typeof value === 'string' &&
    value.trim() !== '' &&
    value.length <= 200 &&
    !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(value),
};
export const FUNCTION: OptionRule<AnyFunction | AnyClass> = {
  wanted: 'a function',
  accept: (value) => typeof value === 'function',
};
export const OBJECT: OptionRule<object> = { wanted: 'an object', accept: isRecord };
export const NUMBER: OptionRule<number> = { wanted: 'a number', accept: Number.isFinite };
export const NOT_NEGATIVE: OptionRule<number> = {
  wanted: 'a number that is not negative',
  accept: (value) => typeof value === 'number' && value >= 0,
};
export const ABOVE_ZERO: OptionRule<number> = {
  wanted: 'a number above 0',
  accept: (value) => typeof value === 'number' && value > 0,
};
export const WHOLE_ABOVE_ZERO: OptionRule<number> = {
  wanted: 'a whole number, 1 or more',
  accept: (value) => isWhole(value, 1),
};

/** Whole numbers between two bounds, both included. */
export function wholeFrom(least: number, most: number): OptionRule<number> {
  return {
    wanted: `a whole number from ${least} to ${most}`,
    accept: (value) => isWhole(value, least, most),
  };
}

/** Returns whether a value is a whole number between two bounds, both included. */
export function isWhole(
  value: unknown,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): value is number {
  return (
    typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most
  );
}

/**
 * A class, which cannot be told from a function by its looks: it is called with `new` and has a
 * prototype.
 */
export const CLASS: OptionRule<AnyClass> = {
  wanted: 'a class',
  accept: (value) =>
    typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null,
};

/** A model, whatever it wraps. */
export const MODEL: OptionRule<LanguageModel> = {
  wanted: 'a LanguageModel',
  accept: (value) => value instanceof LanguageModel,
  problem: foreignModel,
};

/**
 * Names what keeps an object with the methods of a model from being one; undefined for any other
 * value.
 */
export function foreignModel(value: unknown): string | undefined {
  if (!isRecord(value) || typeof value.stream !== 'function') return undefined;
  const duplicates =
    duplicatesOf('@toolloop/protocol') ?? 'If its class is yours, let it extend LanguageModel.';
  return `The model is an object with stream(), but no LanguageModel that this copy of @toolloop/protocol knows. ${duplicates}`;
}

/** An object of an abstract class whose method it has, whether it inherits it or not. */
export function whatCan(method: string, wanted: string): OptionRule<object> {
  return {
    wanted,
    accept: (value) => isRecord(value) && typeof Reflect.get(value, method) === 'function',
  };
}

/** One of a few words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): ChoiceRule<Word> {
  return {
    words,
    wanted: words
      .map((word) => `'${word}'`)
      .join(', ')
      .replace(/, (?=[^,]*$)/, ' or '),
    accept: (value) => words.some((word) => word === value),
    remedy: (value) => (typeof value === 'string' ? nearestIn(value, words) : undefined),
  };
}

export function listOf<Value>(
  { accept }: OptionRule<Value>,
  wanted: string,
): OptionRule<readonly Value[]> {
  return { wanted, accept: (value) => Array.isArray(value) && value.every(accept) };
}

export function either<One, Other>(
  one: OptionRule<One>,
  other: OptionRule<Other>,
): OptionRule<One | Other> {
  return {
    wanted: `${one.wanted} or ${other.wanted}`,
    accept: (value) => one.accept(value) || other.accept(value),
    remedy: (value) => one.remedy?.(value) ?? other.remedy?.(value),
    within: (value, at, name) => (one.accept(value) ? one : other).within?.(value, at, name) ?? [],
  };
}

/**
 * The options of another table: `isMerged` if two levels of them are merged option by option,
 * `isHere` if their wording says whose they are.
 */
export function optionsOf<Options extends object>(
  table: OptionTable<Options>,
  { isMerged = false, isHere = false } = {},
): OptionRule<Options> {
  const within: OptionRule<Options>['within'] = (value, at, name) =>
    table.findings(value, isHere ? at : `${at} ${name}`);
  return {
    ...OBJECT,
    within,
    ...(isMerged && { join: (outer: object, inner: object) => table.merge(outer, inner) }),
  };
}

/** A list of them; `across` finds what is wrong with several of the list together. */
export function listOfOptions<Options extends object>(
  table: OptionTable<Options>,
  wanted: string,
  across: (list: readonly Partial<Options>[], at: string) => Finding[] = () => [],
): OptionRule<readonly Options[]> {
  return {
    wanted,
    accept: Array.isArray,
    within: (value, at, name) => {
      const list: readonly unknown[] = Object.values(value);
      const findings = list.flatMap((one, index) => table.findings(one, `${at} ${name}[${index}]`));
      const sound = list.map((one) => (isRecord(one) ? table.sound(one) : {}));
      return [...findings, ...across(sound, `${at} ${name}`)];
    },
  };
}

/** Named ones; `of` says what a name stands for. */
export function namedOptions<Options extends object>(
  table: OptionTable<Options>,
  of: string,
): OptionRule<Readonly<Record<string, Options>>> {
  return {
    ...OBJECT,
    within: (values, at) =>
      Object.entries(values).flatMap(([name, value]) =>
        table.findings(value, `${at} ${of} "${name}"`),
      ),
  };
}

/** Values by names from which people choose one. */
export function byNames<Value>(
  { accept }: OptionRule<Value>,
  wanted: string,
): OptionRule<Readonly<Record<string, Value>>> {
  return {
    wanted,
    accept: (values) => isRecord(values) && Object.values(values).every((value) => accept(value)),
    within: (values, at, option) =>
      Object.keys(values).flatMap((name) =>
        isName(name)
          ? []
          : [
              {
                at,
                problem: `A name in "${option}" is ${inWords(name)}.`,
                remedy: `Give ${LABEL.wanted}.`,
              },
            ],
      ),
  };
}

function isName(name: string): boolean {
  return LABEL.accept(name) && visible(name) === name;
}

/** An option that must be given. */
export function needed<Rule extends OptionRule<never>>(rule: Rule): Rule {
  return { ...rule, isNeeded: true };
}
