import { ConfigurationError, type Finding, isObject, isRecord, visible } from '@toolloop/protocol';
import { nearestName } from './nearest-name.js';

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

/** Any value: what uses the option checks it. */
export const CHECKED_BY_USE: OptionRule<unknown> = { wanted: 'a value', accept: () => true };
