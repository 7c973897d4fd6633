import { fetchScript } from '../shell/scripts.js';
import { EN, type WordKey } from './en.js';

export type { WordKey } from './en.js';

/** The sentences of one language; English where one is missing. */
export type Catalogue = Readonly<Record<WordKey, string>>;

type Values = Readonly<Record<string, string | number>>;

/** An amount below which cents say nothing, such as the cost of an answer. */
const TINY = 0.1;
const MINUTE_MS = 60_000;
const SECOND_MS = 1_000;
const STEPS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', MINUTE_MS],
  ['second', SECOND_MS],
] as const;

/** The words of one language, and its forms of numbers and times. */
export class Words {
  private readonly plurals: Intl.PluralRules;
  private readonly numbers: Intl.NumberFormat;
  private readonly percents: Intl.NumberFormat;
  private readonly times: Intl.DateTimeFormat;
  private readonly days: Intl.DateTimeFormat;
  private readonly clocks: Intl.DateTimeFormat;
  private readonly distances: Intl.RelativeTimeFormat;

  constructor(
    readonly language: string,
    private readonly catalogue: Catalogue = EN,
  ) {
    this.plurals = new Intl.PluralRules(language);
    this.numbers = new Intl.NumberFormat(language);
    this.percents = new Intl.NumberFormat(language, { style: 'percent' });
    this.times = new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeStyle: 'short' });
    this.days = new Intl.DateTimeFormat(language, {
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      timeZone: 'UTC',
    });
    this.clocks = new Intl.DateTimeFormat(language, {
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      fractionalSecondDigits: 3,
    });
    this.distances = new Intl.RelativeTimeFormat(language, { numeric: 'auto' });
  }

  /** A sentence with its values. `{n|call|calls}` chooses by the number `n`. */
  readonly t = (key: WordKey, values: Values = {}): string =>
    this.catalogue[key].replaceAll(
      /\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g,
      (_match, name: string, one?: string, other?: string) => {
        const value = values[name] ?? '';
        if (one !== undefined)
          return (this.plurals.select(Number(value)) === 'one' ? one : other) ?? '';
        return typeof value === 'number' ? this.number(value) : value;
      },
    );

  /** A share from 0 to 1. */
  percent(share: number): string {
    return this.percents.format(share);
  }

  number(value: number): string {
    return this.numbers.format(value);
  }

  /** A day and a time. */
  time(iso: string): string {
    return this.times.format(new Date(iso));
  }

  /** A day in UTC, given as `2026-11-23`. */
  day(date: string): string {
    return this.days.format(new Date(date));
  }

  /** The time of a day, with milliseconds. */
  clock(iso: string): string {
    return this.clocks.format(new Date(iso));
  }

  /** The distance from now: "in 5 minutes", "yesterday". */
  ago(iso: string, now = Date.now()): string {
    const distance = Date.parse(iso) - now;
    const [unit, size] =
      STEPS.find(([, ms]) => Math.abs(distance) >= ms) ?? (['second', SECOND_MS] as const);
    return this.distances.format(Math.trunc(distance / size), unit);
  }

  /** Names of which one is enough: "manager or auditor". */
  anyOf(names: readonly string[]): string {
    return new Intl.ListFormat(this.language, { type: 'disjunction' }).format(names);
  }

  duration(ms: number): string {
    const [value, unit] =
      ms < SECOND_MS
        ? [ms, 'millisecond']
        : ms < MINUTE_MS
          ? [ms / SECOND_MS, 'second']
          : [ms / MINUTE_MS, 'minute'];
    return new Intl.NumberFormat(this.language, {
      style: 'unit',
      unit,
      unitDisplay: 'short',
      maximumFractionDigits: unit === 'second' ? 1 : 0,
    }).format(value);
  }

  money(amount: number, currency: string): string {
    const isTiny = amount !== 0 && Math.abs(amount) < TINY;
    return new Intl.NumberFormat(this.language, {
      style: 'currency',
      currency,
      ...(isTiny && { maximumFractionDigits: 4 }),
    }).format(amount);
  }
}

/**
 * Loads a language. English is there from the start.
 *
 * @throws {UnfetchedScript} If its words could not be fetched.
 */
export async function wordsOf(language: string): Promise<Words> {
  if (language !== 'de') return new Words('en');
  const { DE } = await fetchScript(() => import('./de.js'), 'words');
  return new Words('de', DE);
}
