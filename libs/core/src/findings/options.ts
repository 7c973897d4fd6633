import {
  ConfigurationError,
  duplicatesOf,
  type Finding,
  isObject,
  isRecord,
  LanguageModel,
  visible,
} from '@toolloop/protocol';
import { closest, distance } from 'fastest-levenshtein';

/**
 * The values that one option takes, in words and as a test. A rule for more values than an option
 * has serves it too; one for fewer does not compile.
 */
export interface OptionRule<in Value> {
  /** Behind "Give" in a remedy. */
  readonly wanted: string;
  /** True if the option must be given. @default false */
  readonly isNeeded?: boolean;
  readonly accept: (value: unknown) => boolean;
  /**
   * The problem with a value that is not accepted; `option` names the option. @default
   * `${option} is ${value}.`
   */
  readonly problem?: (value: unknown, option: string) => string | undefined;
  /** The remedy for such a value, where there is a better one than what is `wanted`. */
  readonly remedy?: (value: unknown) => string | undefined;
  /** The findings within a value that is accepted. */
  readonly within?: (value: object, at: string, name: string) => Finding[];
  /** Joins the values of two levels. @default the inner one wins */
  readonly join?: (outer: object, inner: object) => object;
  /** Never set: it tells the compiler which values are accepted. */
  readonly takes?: (value: Value) => void;
}

/** A rule for a few words, each of which the type has. */
export interface ChoiceRule<Word extends string> extends OptionRule<Word> {
  readonly words: readonly Word[];
}

type NameOf<Options> = Options extends unknown ? Extract<keyof Options, string> : never;
type ValueOf<Options, Name> = Options extends unknown
  ? Name extends keyof Options
    ? Exclude<Options[Name], undefined>
    : never
  : never;
type RuleFor<Value> = [Value] extends [string]
  ? string extends Value
    ? OptionRule<Value>
    : ChoiceRule<Value>
  : OptionRule<Value>;

/** A rule for every option of a type: one that is missing does not compile. */
export type OptionRules<Options> = {
  readonly [Name in NameOf<Options>]-?: RuleFor<ValueOf<Options, Name>>;
};

/** The words in which findings speak of options; `*` stands for a name. */
export interface OptionWording {
  /** The problem with a name that no option has. */
  readonly unknown: string;
  /** The beginning of a problem with a value. */
  readonly option: string;
  /** Behind the place of a finding about a value, where that names the option. */
  readonly place?: string;
}

const OPTION: OptionWording = { unknown: 'There is no option "*".', option: 'The option "*"' };

/** The wording for what one thing says of itself: "Its concurrency is 0." */
export const ITS: OptionWording = { ...OPTION, option: 'Its *' };

/** The settings of a table beside its rules. */
export interface TableSettings<Options> {
  readonly wording?: OptionWording;
  /** Names that are options elsewhere, with the remedy for them. */
  readonly elsewhere?: Readonly<Record<string, Partial<Pick<Finding, 'problem' | 'remedy'>>>>;
  /**
   * The findings about options that do not fit together. In `options` those with a value that is
   * wrong by itself are left out.
   */
  readonly together?: (options: Partial<Options>, at: string, given: object) => Finding[];
}

/**
 * Declares the options of one type: their names, checks, findings, how levels are merged and what
 * is copied all follow from the rules.
 */
export function defineOptions<Options extends object>(
  rules: OptionRules<Options>,
  settings: TableSettings<Options> = {},
): OptionTable<Options> {
  return new OptionTable(rules, settings);
}

type AnyRule = OptionRule<never>;

/** The options of one type; see {@link defineOptions}. */
export class OptionTable<Options extends object> {
  private readonly entries: ReadonlyMap<string, AnyRule>;
  /** The options whose values of two levels are joined. */
  private readonly joins: readonly (readonly [name: string, join: NonNullable<AnyRule['join']>])[];

  constructor(
    readonly rules: OptionRules<Options>,
    readonly settings: TableSettings<Options>,
  ) {
    this.entries = new Map(Object.entries<AnyRule>({ ...rules }));
    this.joins = [...this.entries].flatMap(([name, { join }]) =>
      join ? [[name, join] as const] : [],
    );
  }

  /**
   * Everything that is wrong: names, values, what is missing and what does not fit together. An
   * option that is `undefined` was left out.
   */
  findings(given: unknown, at: string): Finding[] {
    if (!isRecord(given))
      return [{ at, problem: `Its options are ${inWords(given)}.`, remedy: 'Give an object.' }];
    const findings = this.nameFindings(given, at);
    this.entries.forEach((rule, name) => {
      const value: unknown = Reflect.get(given, name);
      if (value !== undefined || rule.isNeeded)
        findings.push(...this.valueFindings(name, rule, value, at));
    });
    const { together } = this.settings;
    return together ? [...findings, ...together(this.sound(given), at, given)] : findings;
  }

  /** @throws {ConfigurationError} with all findings */
  assert(given: unknown, at: string, foundIn?: 'declarations' | 'request'): void {
    const findings = this.findings(given, at);
    if (findings.length > 0) throw new ConfigurationError(findings, foundIn);
  }

  /** The options whose values are accepted: what else is wrong with them can be told as well. */
  sound(given: object): Partial<Options> {
    return this.only(given, (rule, value) => rule.accept(value));
  }

  /** The options of this table that are given. */
  copy<Given extends object>(given: Given): Pick<Given, keyof Given & NameOf<Options>> {
    return this.only(given, () => true);
  }

  /** Merges the options of two levels: the inner one wins, option by option if a rule says so. */
  merge<Outer extends object, Inner extends object>(
    outer: Outer,
    inner: Inner,
  ): Outer & Pick<Inner, keyof Inner & NameOf<Options>> {
    const merged = { ...outer, ...this.copy(inner) };
    for (const [name, join] of this.joins) {
      const [wide, narrow]: unknown[] = [Reflect.get(outer, name), Reflect.get(inner, name)];
      if (isRecord(wide) && isRecord(narrow)) Reflect.set(merged, name, join(wide, narrow));
    }
    return merged;
  }

  private only<Given extends object>(
    given: Given,
    isKept: (rule: AnyRule, value: unknown) => boolean,
  ): Given {
    const kept = { ...given };
    for (const name of Object.keys(kept)) {
      const value: unknown = Reflect.get(kept, name);
      const rule = this.entries.get(name);
      if (value === undefined || !rule || !isKept(rule, value)) Reflect.deleteProperty(kept, name);
    }
    return kept;
  }

  private nameFindings(given: object, at: string): Finding[] {
    const unknown = Object.keys(given).filter((name) => !this.entries.has(name));
    if (unknown.length === 0) return [];
    const { wording = OPTION, elsewhere = {} } = this.settings;
    const known = [...this.entries.keys()];
    return unknown.map((name) => {
      const { problem = named(wording.unknown, name), remedy = nearestName(name, known) } =
        (Object.hasOwn(elsewhere, name) && elsewhere[name]) || {};
      return { at, problem, remedy };
    });
  }

  private valueFindings(name: string, rule: AnyRule, value: unknown, at: string): Finding[] {
    const isAccepted = value === undefined ? !rule.isNeeded : rule.accept(value);
    if (isAccepted) return rule.within && isObject(value) ? rule.within(value, at, name) : [];
    const { option, place = '' } = this.settings.wording ?? OPTION;
    const remedy = rule.remedy?.(value) ?? `Give ${rule.wanted}.`;
    return [
      {
        at: at + named(place, name),
        problem: problemWith(name, rule, value, named(option, name)),
        remedy,
      },
    ];
  }
}

function problemWith(name: string, rule: AnyRule, value: unknown, option: string): string {
  const standard =
    value === undefined
      ? `It has no "${name}".`
      : `${option} is ${isSecretName(name) ? unshown(value) : inWords(value)}.`;
  return rule.problem?.(value, option) ?? standard;
}

function named(text: string, name: string): string {
  return text.replaceAll('*', () => name);
}

/** Options whose values are secrets, or hold some. */
const SECRET_NAME = /(?:secret|password|token|credential|cookie|headers|env|key|keys)$/i;

function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !NO_SECRETS.has(name);
}

/** Keys that name things. */
const NO_SECRETS: ReadonlySet<string> = new Set(['idempotencyKey', 'instanceKey', 'primaryKey']);

/** Says of a secret that it is a text, and nothing of it. */
function unshown(value: unknown): string {
  return typeof value === 'string'
    ? value === ''
      ? 'an empty text'
      : 'a text that is not shown'
    : inWords(value);
}

/** A password within an address. */
const PASSWORD_IN_ADDRESS = /(?<=:\/\/)[^\s/@]*@/g;

/** A value as a finding names it, which tells no more than it has to. */
export function inWords(value: unknown): string {
  if (typeof value === 'string')
    return visible(JSON.stringify(value.replaceAll(PASSWORD_IN_ADDRESS, '…@').slice(0, 64)));
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  return isRecord(value) ? 'an object' : String(value);
}

type AnyFunction = (...args: never[]) => unknown;
type AnyClass = abstract new (...args: never[]) => unknown;

/** Any value: what uses the option checks it. */
export const CHECKED_BY_USE: OptionRule<unknown> = { wanted: 'a value', accept: () => true };
export const BOOLEAN: OptionRule<boolean> = {
  wanted: 'true or false',
  accept: (value) => typeof value === 'boolean',
};
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

/** Returns the remedy for a wrong name: the nearest known one, or if none is near, all of them. */
export function nearestName(wrong: string, known: readonly string[]): string {
  return (
    nearestIn(wrong, known) ??
    (known.length === 0 ? 'There are none.' : `There are: ${known.join(', ')}.`)
  );
}

/**
 * Returns the nearest known name as a remedy; undefined if none is near: with other letters in no
 * more than that part of it, or the same letters in another order.
 */
export function nearestIn(wrong: string, known: readonly string[], part = 0.4): string | undefined {
  if (known.length === 0) return undefined;
  const nearest = closest(wrong, known);
  const isNear =
    distance(wrong, nearest) <= Math.max(wrong.length, nearest.length) * part ||
    lettersOf(wrong) === lettersOf(nearest);
  return isNear ? `Did you mean "${nearest}"?` : undefined;
}

const lettersOf = (name: string): string => name.split('').toSorted().join('');
