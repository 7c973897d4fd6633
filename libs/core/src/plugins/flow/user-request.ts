import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { PolicyTool, RequestableCall } from '../../contracts/policy.js';
import { readItems, readProperty } from './inner-schema.js';

/**
 * The kinds of values that are told apart in the words of a user. A value of no kind is not traced:
 * a bare word may mean anything.
 */
type Kind = 'email' | 'address' | 'iban' | 'phone' | 'date' | 'time' | 'id' | 'amount' | 'number';

/** A value that a text names, in the one form that all its notations have. */
interface NamedValue {
  readonly kind: Kind;
  readonly value: string;
}

/**
 * Finds values of one kind. What it has found is no value of a kind behind it: the 13 of "June 13"
 * is no number.
 */
interface Finder {
  readonly kind: Kind;
  readonly pattern: RegExp;
  /** Returns the normal form; undefined for what only looks like a value, or may be two. */
  readonly read: (found: RegExpExecArray) => string | undefined;
}

const MONTHS = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');
const MONTH = String.raw`(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?`;
const CURRENCY = String.raw`(?:[$€£¥]|\b(?:usd|eur|gbp|chf|jpy|sek|nok|dkk|pln|czk|inr|cad|aud|dollars?|euros?|pounds?|francs?)\b)`;
const DIGITS = String.raw`\d{1,30}(?:[.,'’]\d{1,30}){0,9}`;

/** In the order in which they take what they find. */
const FINDERS: readonly Finder[] = [
  {
    kind: 'address',
    pattern: /\bhttps?:\/\/[^\s<>"'`)\]]+[^\s<>"'`)\].,;:!?]/gi,
    read: ([text]) => addressOf(text),
  },
  {
    kind: 'email',
    pattern: /(?<![\p{L}\p{N}._%+-])[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+/giu,
    read: ([text]) => text.toLowerCase(),
  },
  {
    kind: 'iban',
    pattern: /\b[A-Z]{2}\d{2}(?:[A-Z\d]{11,30}|(?: [A-Z\d]{4}){2,7}(?: [A-Z\d]{1,3})?)\b/g,
    read: ([text]) => ibanOf(text),
  },
  {
    kind: 'date',
    pattern: /\b(\d{4})-(\d\d)-(\d\d)(?!\d)/g,
    read: ([, year, month, day]) => dateOf(year, month, day),
  },
  {
    kind: 'date',
    pattern: /\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b/g,
    read: ([, day, month, year]) => dateOf(year, month, day),
  },
  {
    kind: 'date',
    pattern: /\b(\d{1,2})\/(\d{1,2})\/(\d{4})\b/g,
    read: ([, one, other, year]) => slashedDate(year, one, other),
  },
  {
    kind: 'date',
    pattern: new RegExp(String.raw`\b(${MONTH}) (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b`, 'gi'),
    read: ([, month, day, year]) => dateOf(year, monthOf(month), day),
  },
  {
    kind: 'date',
    pattern: new RegExp(
      String.raw`\b(\d{1,2})(?:st|nd|rd|th|\.)?(?: of)? (${MONTH}),? (\d{4})\b`,
      'gi',
    ),
    read: ([, day, month, year]) => dateOf(year, monthOf(month), day),
  },
  // A day without a year is a date, and no number; which one it is depends on the day of the run.
  {
    kind: 'date',
    pattern: new RegExp(
      String.raw`\b(?:${MONTH} \d{1,2}(?:st|nd|rd|th)?|\d{1,2}(?:st|nd|rd|th|\.)?(?: of)? ${MONTH})\b`,
      'gi',
    ),
    read: () => undefined,
  },
  {
    kind: 'time',
    pattern: /\b(\d{1,2}):(\d\d)(?::\d\d)?(?: ?([ap])\.?m\b\.?)?/gi,
    read: ([, hour, minute, half]) => timeOf(hour, minute, half),
  },
  {
    kind: 'time',
    pattern: /\b(\d{1,2}) ?([ap])\.?m\b\.?/gi,
    read: ([, hour, half]) => timeOf(hour, '00', half),
  },
  {
    kind: 'phone',
    pattern: /\+\d[\d ()/.-]{6,18}\d/g,
    read: ([text]) => `+${text.replaceAll(/\D/g, '')}`,
  },
  {
    kind: 'amount',
    pattern: new RegExp(String.raw`(${CURRENCY}) ?(${DIGITS})|(${DIGITS}) ?(${CURRENCY})`, 'gi'),
    read: ([, before = '', behind = '', number = '', after = '']) =>
      amountOf(behind || number, before || after),
  },
  {
    kind: 'id',
    pattern: /#?[\p{L}\p{N}]+(?:[-_:#.][\p{L}\p{N}]+)*/gu,
    read: ([text]) => (isId(text) ? text : undefined),
  },
  {
    kind: 'number',
    pattern: new RegExp(String.raw`-?\b${DIGITS}`, 'g'),
    read: ([text]) => numberOf(text),
  },
];

/**
 * A word before a value in its sentence that makes it no consent: a negation, or the bound of a
 * range.
 */
const NO_CONSENT =
  /\b(?:no|not|never|none|nor|neither|without|except|but|instead|rather|than|avoid|don['’]?t|do not|doesn['’]?t|won['’]?t|can['’]?t|cannot|shouldn['’]?t|mustn['’]?t|isn['’]?t|kein\w*|nicht|nie|niemals|ohne|statt|außer|pas|jamais|sans|ni|nunca|sin)\b/i;
const RANGE =
  /\b(?:between|from|up to|at (?:most|least)|more than|less than|over|under|above|below|about|around|approximately|until|before|after|max(?:imum)?|min(?:imum)?|zwischen|bis|höchstens|mindestens|etwa|ungefähr)\W*$/i;
/**
 * The beginning of a range, and what stands before its end: the number behind `and` in "between 5
 * and 50".
 */
const RANGE_BEGIN = /\b(?:between|from|zwischen|von|entre|de)\b/i;
const RANGE_END = /(?:\b(?:and|to|until|till|bis|und|et|y|à|a)\b|[-–—])\s*$/i;
const CONTINUED =
  /^\s*(?:-|–|—|to\s*\P{L}?\d|and above|or (?:more|less|fewer|above|below)|bis\b|oder\b|±)/iu;
/** A sentence that takes back what was asked for before it. */
const REVOKED =
  /^\W*(?:no|nope|nein|non|halt|stop|wait|warte|hold on)\s*(?:[,!.;…–—-]|$)|\b(?:never ?mind|chang(?:ed?|ing) my mind|forget (?:it|that|about)|do nothing|not yet)\b|\b(?:don['’]?t|do not)\W*$/i;

/**
 * A word where a sentence asks for something: at its beginning, behind a condition, or behind words
 * that make it a request. Anywhere else it may tell what was, or what others want.
 */
const ASKING =
  /(?:^\W*(?:if|when|once|as soon as)\b[^.!?]*,\s+|^\W*|\b(?:please|and|then|now|also|just|you to|(?:can|could|would|will) you|i (?:want|need|wish) to|i(?:['’]d| would) like to)\s+)(?:(?:please|then|now|also|just)\s+)*(\p{L}+)/giu;
const POLITE = /^\W*(?:please\s+)?(?:can|could|would|will) you\b/i;
const QUOTED = /"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|(?<!\p{L})['‘][^'’]*['’](?!\p{L})/gu;

/**
 * Returns the words by which a sentence asks for something; none where it is a question, or no
 * consent.
 */
function commandsIn(sentence: string): readonly string[] {
  const isQuestion = sentence.trimEnd().endsWith('?') && !POLITE.test(sentence);
  if (isQuestion || NO_CONSENT.test(sentence)) return [];
  return [...sentence.replaceAll(QUOTED, ' ').matchAll(ASKING)].flatMap(([, word]) =>
    word === undefined ? [] : wordsIn(word),
  );
}

/**
 * The words of a user, as far as they ask for a call: values whose kind leaves no doubt, outside of
 * negations and ranges.
 */
export class UserRequest {
  private readonly named: readonly NamedValue[];
  /** Those of the sentences that ask for something. */
  private readonly requested: readonly NamedValue[];
  private readonly words: ReadonlySet<string>;
  /** All words, of whatever sentence. */
  private readonly mentioned: ReadonlySet<string>;
  private readonly commands: ReadonlySet<string>;

  constructor(texts: readonly string[]) {
    const sentences = texts.flatMap((text) => text.normalize('NFKC').split(/(?<=[.!?;])\s+|\n+/));
    this.named = sentences.flatMap(valuesIn);
    const said = sentences.slice(
      Math.max(
        0,
        sentences.findLastIndex((sentence) => REVOKED.test(sentence)),
      ),
    );
    const asking = said.filter((sentence) => commandsIn(sentence).length > 0);
    this.requested = asking.flatMap(valuesIn);
    this.words = new Set(asking.flatMap(stemsIn).concat(currenciesIn(this.requested)));
    this.mentioned = new Set(sentences.flatMap(stemsIn).concat(currenciesIn(this.named)));
    this.commands = new Set(asking.flatMap((sentence) => commandsIn(sentence).map(stemOf)));
  }

  /**
   * Tells whether the user named a tool, its instance and every decisive argument of a call of it,
   * and nothing else that could stand in its place. What they asked for happens once, in whatever
   * notation.
   */
  names(tool: RequestedTool, { args, instanceId, spent }: RequestableCall): boolean {
    if (!this.hasWordsOf(tool.declaredId)) return false;
    const telling = this.tellingIn(tool, args);
    const values = telling.map(normalOf);
    const isMade = ({
      declaredId,
      args: before,
    }: RequestableCall['spent']['calls'][number]): boolean =>
      declaredId === tool.declaredId &&
      isSameSet(this.tellingIn(tool, before).map(normalOf), values);
    const instance =
      instanceId === undefined ? [] : [{ name: '', place: '', value: instanceId, schema: {} }];
    const all = [...instance, ...telling];
    return (
      all.length > 0 && all.every((value) => this.isTraced(value, all)) && !spent.calls.some(isMade)
    );
  }

  /**
   * The values that decide what a call does, without switches and choices that need not be named.
   */
  private tellingIn({ inputSchema, labels }: RequestedTool, args: JsonObject): readonly Argument[] {
    const names = labels.decisive ?? Object.keys(args);
    const values = names.flatMap((name) =>
      argumentsIn({ name, place: name, schema: readProperty(inputSchema, name) }, args[name]),
    );
    return values.filter((value) => !this.isGiven(value));
  }

  /** The last part of the id: its verb, and one more of its words where it has more. */
  private hasWordsOf(declaredId: string): boolean {
    const [verb, ...others] = wordsIn(declaredId.replace(/^.*(?:__|_\*_)/, ''));
    if (verb === undefined || !this.commands.has(stemOf(verb))) return false;
    return others.length === 0 || others.some((word) => this.words.has(stemOf(word)));
  }

  /**
   * A switch or a choice only as its default, or as it was named; and never where another choice
   * was mentioned as well.
   */
  private isGiven({ name, value, schema }: Argument): boolean {
    const isDefault = schema.default !== undefined && value === schema.default;
    if (typeof value === 'boolean')
      return value && areIn(this.words, name) ? true : isDefault && !areIn(this.mentioned, name);
    if (!schema.enum || typeof value !== 'string') return isDefault;
    const own = new Set(stemsIn(value));
    const isOther = (one: unknown): boolean =>
      typeof one === 'string' && !areIn(own, one) && areIn(this.mentioned, one);
    return (isDefault || areIn(this.words, value)) && !schema.enum.some(isOther);
  }

  /**
   * The user must have named no other value of the kind that the call does not take at this place:
   * which of them they meant, someone else could have decided.
   */
  private isTraced(argument: Argument, all: readonly Argument[]): boolean {
    const { value, schema, place } = argument;
    const [kind] = kindsIn(argument);
    if (!kind || typeof value === 'boolean' || schema.enum) return false;
    const ofKind = (named: readonly NamedValue[]): readonly string[] =>
      named.flatMap((one) => readAs(kind.kind, one));
    const named = new Set(ofKind(this.named));
    const taken = all
      .flatMap((other) => (other.place === place ? ofKind(kindsIn(other)) : []))
      .filter((one) => named.has(one));
    return ofKind(this.requested).includes(kind.value) && named.size <= new Set(taken).size;
  }
}

type RequestedTool = Pick<PolicyTool, 'declaredId' | 'inputSchema' | 'labels'>;

/** Returns a named value as one of a kind. A number may be any amount that was named. */
function readAs(kind: Kind, one: NamedValue): readonly string[] {
  if (kind === 'number' && one.kind === 'amount') return [one.value.split(' ', 1)[0] ?? ''];
  return one.kind === kind ? [one.value] : [];
}

function currenciesIn(named: readonly NamedValue[]): readonly string[] {
  return named.flatMap(({ kind, value }) => (kind === 'amount' ? value.split(' ').slice(1) : []));
}

function areIn(words: ReadonlySet<string>, text: string): boolean {
  const all = stemsIn(text);
  return all.length > 0 && all.every((word) => words.has(word));
}

function isSameSet(some: readonly string[], others: readonly string[]): boolean {
  const [one, other] = [new Set(some), new Set(others)];
  return one.size === other.size && [...one].every((value) => other.has(value));
}

/** A scalar of a call's arguments. */
interface Argument {
  readonly name: string;
  /** The place in the call that it fills. The items of a list of scalars fill one. */
  readonly place: string;
  readonly value: string | number | boolean;
  readonly schema: JSONSchema7;
}

function argumentsIn(
  at: Omit<Argument, 'value'>,
  value: JsonValue | undefined,
): readonly Argument[] {
  const { place, schema } = at;
  if (value === undefined || value === null || value === '') return [];
  if (isJsonList(value)) {
    const items = readItems(schema);
    return value.flatMap((item, index) =>
      argumentsIn(
        { ...at, schema: items, place: isJsonObject(item) ? `${place}/${index}` : place },
        item,
      ),
    );
  }
  if (!isJsonObject(value)) return [{ ...at, value }];
  return Object.entries(value).flatMap(([key, item]) => {
    const isDeclared = schema.properties !== undefined && Object.hasOwn(schema.properties, key);
    const inner = argumentsIn(
      { name: key, place: `${place}/${key}`, schema: readProperty(schema, key) },
      item,
    );
    return isDeclared ? inner : inner.concat({ name: key, place, value: key, schema: {} });
  });
}

const NAME_OF_ID =
  /(?:^|[^a-z])(?:id|ids|key|no|nr|number|ref|reference|code|index)$|(?:Id|Ids|Key|No|Nr|Number|Ref|Reference|Code|Index)$/;

/** The kind of an argument, and its normal form. A number alone is no id. */
function kindsIn({ name, value }: Argument): readonly NamedValue[] {
  if (typeof value === 'string') return kindsOf(value);
  return typeof value === 'number' && !NAME_OF_ID.test(name)
    ? [{ kind: 'number', value: String(value) }]
    : [];
}

function normalOf(argument: Argument): string {
  return kindsIn(argument)[0]?.value ?? String(argument.value);
}

/**
 * The kinds of a text that is one value as a whole, but for a number: a text of digits alone would
 * be an id. What only looks like the user's value is another.
 */
function kindsOf(text: string): readonly NamedValue[] {
  const trimmed = text.trim();
  if (/[T ]\d\d:/.test(trimmed) || trimmed.normalize('NFKC') !== trimmed) return [];
  for (const { kind, pattern, read } of FINDERS) {
    const [found] = trimmed.matchAll(pattern);
    if (!found || found[0] !== trimmed || kind === 'number') continue;
    const value = read(found);
    if (value !== undefined) return [{ kind, value }];
  }
  const iban = ibanOf(trimmed); // in small letters
  return iban === undefined ? [] : [{ kind: 'iban', value: iban }];
}

/** The values of a sentence that it consents to. */
function valuesIn(sentence: string): readonly NamedValue[] {
  const values: NamedValue[] = [];
  const consents = consentIn(sentence);
  let rest = sentence;
  for (const { kind, pattern, read } of FINDERS) {
    let left = '';
    for (const found of rest.matchAll(pattern)) {
      const value = read(found);
      if (kind === 'id' && value === undefined) continue;
      const end = found.index + found[0].length;
      if (value !== undefined)
        values.push({ kind, value: consents(found.index, end) ? value : '' });
      left += rest.slice(left.length, found.index) + ' '.repeat(found[0].length);
    }
    rest = left + rest.slice(left.length);
  }
  return values;
}

/** The most characters beside a value that are read for a bound or the end of a range. */
const BESIDE = 200;

/**
 * Returns what tells whether a sentence consents to a value at a place. A long sentence may name
 * many.
 */
function consentIn(sentence: string): (start: number, end: number) => boolean {
  const negation = firstEndIn(sentence, NO_CONSENT);
  const range = firstEndIn(sentence, RANGE_BEGIN);
  return (start, end) => {
    const before = sentence.slice(Math.max(0, start - BESIDE), start);
    const isNegated = negation <= start || NO_CONSENT.test(before);
    const isRange = RANGE.test(before) || (range <= start && RANGE_END.test(before));
    return !isNegated && !isRange && !CONTINUED.test(sentence.slice(end, end + BESIDE));
  };
}

function firstEndIn(sentence: string, pattern: RegExp): number {
  const found = pattern.exec(sentence);
  return found ? found.index + found[0].length : Infinity;
}

function addressOf(text: string): string | undefined {
  return URL.canParse(text) ? new URL(text).href : undefined;
}

/**
 * ISO 13616: the letters as numbers, the first four characters at the end, leave 1 when divided by
 * 97.
 */
function ibanOf(text: string): string | undefined {
  const compact = text.replaceAll(/\s/g, '').toUpperCase();
  if (!/^[A-Z]{2}\d{2}[A-Z\d]{11,30}$/.test(compact)) return undefined;
  const digits = (compact.slice(4) + compact.slice(0, 4)).replaceAll(/[A-Z]/g, (letter) =>
    String(Number.parseInt(letter, 36)),
  );
  return BigInt(digits) % 97n === 1n ? compact : undefined;
}

function dateOf(year = '', month = '', day = ''): string | undefined {
  const text = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}

/** Some write the day first and some the month: one that can be both is neither. */
function slashedDate(year = '', one = '', other = ''): string | undefined {
  if (one === other || Number(one) > 12) return dateOf(year, other, one);
  return Number(other) > 12 ? dateOf(year, one, other) : undefined;
}

function monthOf(name = ''): string {
  return String(MONTHS.indexOf(name.slice(0, 3).toLowerCase()) + 1);
}

function timeOf(hour = '', minute = '', half?: string): string | undefined {
  const isHalved = half !== undefined;
  if (Number(minute) > 59 || Number(hour) > (isHalved ? 12 : 23)) return undefined;
  const hours = isHalved
    ? (Number(hour) % 12) + (half.toLowerCase() === 'p' ? 12 : 0)
    : Number(hour);
  return `${String(hours).padStart(2, '0')}:${minute}`;
}

/**
 * Reads a number that has one meaning in every country: `1,234.50` and `3.5` have, `1.500` has two.
 */
function numberOf(text: string): string | undefined {
  const readings = new Set(
    [asNumber(text, /[,'’]/g, '.'), asNumber(text, /[.'’]/g, ',')].filter(
      (value) => !Number.isNaN(value),
    ),
  );
  const [only] = readings;
  return readings.size === 1 ? String(only) : undefined;
}

/**
 * Reads a number in one of the notations of different countries; NaN where it is none in that one.
 */
export function asNumber(text: string, grouping: RegExp, decimal: string): number {
  const [whole = '', fraction = '', ...more] = text.split(decimal);
  const [first = '', ...groups] = whole.split(grouping);
  const isGrouped =
    groups.every((group) => group.length === 3) &&
    (groups.length === 0 || first.replace('-', '').length <= 3);
  if (more.length > 0 || !isGrouped || /\D/.test(fraction)) return Number.NaN;
  return Number(`${first}${groups.join('')}.${fraction || '0'}`);
}

/**
 * Letters and digits together, such as `KX-7` or `#W2378156`: a word is none, and a number alone is
 * none either.
 */
function isId(text: string): boolean {
  return (
    text.length >= 4 &&
    /\d/.test(text) &&
    /[\p{L}#]/u.test(text) &&
    !/^\d+(?:st|nd|rd|th)$/i.test(text)
  );
}

const CURRENCIES: Readonly<Record<string, string>> = {
  $: 'usd',
  dollar: 'usd',
  '€': 'eur',
  euro: 'eur',
  '£': 'gbp',
  pound: 'gbp',
  '¥': 'jpy',
  franc: 'chf',
};

/** An amount of another currency is another. */
function amountOf(digits: string, currency: string): string | undefined {
  const [number, name] = [numberOf(digits), currency.toLowerCase().replace(/s$/, '')];
  return number === undefined ? undefined : `${number} ${CURRENCIES[name] ?? name}`;
}

function stemsIn(text: string): readonly string[] {
  return wordsIn(text).map(stemOf);
}

function wordsIn(text: string): readonly string[] {
  const parted = text.replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2').toLowerCase();
  return parted.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/**
 * A word without the endings by which English inflects it: enough to know `cancelled` as `cancel`
 * and `orders` as `order`.
 */
function stemOf(word: string): string {
  const stem = word.replace(/(?:ing|ed|es|s|e)$/, '');
  const short = stem.length >= 3 ? stem : word;
  return short.replace(/([b-df-hj-np-tv-z])\1$/, '$1');
}
