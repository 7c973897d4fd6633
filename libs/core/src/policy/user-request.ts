import { isJsonList, isJsonObject, isWebAddress, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import type { PolicyTool } from '../contracts/policy.js';

/** The kinds of values that are told apart in the words of a user. A value of no kind is not traced: a bare word may mean anything. */
type Kind = 'email' | 'address' | 'iban' | 'phone' | 'date' | 'time' | 'id' | 'amount' | 'number';

/** A value that a text names, in the one form that all its notations have. */
interface NamedValue {
  readonly kind: Kind;
  readonly value: string;
}

/** Finds values of one kind. What it has found is no value of a kind behind it: the 13 of "June 13" is no number. */
interface Finder {
  readonly kind: Kind;
  readonly pattern: RegExp;
  /** Returns the normal form; undefined for what only looks like a value, or may be two. */
  readonly read: (found: RegExpExecArray) => string | undefined;
}

const MONTHS = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');
const MONTH = String.raw`(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?`;
const CURRENCY = String.raw`(?:[$€£¥]|\b(?:usd|eur|gbp|chf|jpy|sek|nok|dkk|pln|czk|inr|cad|aud|dollars?|euros?|pounds?|francs?)\b)`;
const DIGITS = String.raw`\d+(?:[.,'’]\d+)*`;

/** In the order in which they take what they find. */
const FINDERS: readonly Finder[] = [
  { kind: 'address', pattern: /\bhttps?:\/\/[^\s<>"'`)\]]+[^\s<>"'`)\].,;:!?]/gi, read: ([text]) => addressOf(text) },
  { kind: 'email', pattern: /[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+/giu, read: ([text]) => text.toLowerCase() },
  { kind: 'iban', pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{2,4}){3,8}\b/g, read: ([text]) => ibanOf(text) },
  { kind: 'date', pattern: /\b(\d{4})-(\d\d)-(\d\d)(?!\d)/g, read: ([, year, month, day]) => dateOf(year, month, day) },
  { kind: 'date', pattern: /\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b/g, read: ([, day, month, year]) => dateOf(year, month, day) },
  { kind: 'date', pattern: /\b(\d{1,2})\/(\d{1,2})\/(\d{4})\b/g, read: ([, one, other, year]) => slashedDate(year, one, other) },
  {
    kind: 'date',
    pattern: new RegExp(String.raw`\b(${MONTH}) (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b`, 'gi'),
    read: ([, month, day, year]) => dateOf(year, monthOf(month), day),
  },
  {
    kind: 'date',
    pattern: new RegExp(String.raw`\b(\d{1,2})(?:st|nd|rd|th|\.)?(?: of)? (${MONTH}),? (\d{4})\b`, 'gi'),
    read: ([, day, month, year]) => dateOf(year, monthOf(month), day),
  },
  // A day without a year is a date, and no number; which one it is depends on the day of the run.
  {
    kind: 'date',
    pattern: new RegExp(String.raw`\b(?:${MONTH} \d{1,2}(?:st|nd|rd|th)?|\d{1,2}(?:st|nd|rd|th|\.)?(?: of)? ${MONTH})\b`, 'gi'),
    read: () => undefined,
  },
  {
    kind: 'time',
    pattern: /\b(\d{1,2}):(\d\d)(?::\d\d)?(?: ?([ap])\.?m\b\.?)?/gi,
    read: ([, hour, minute, half]) => timeOf(hour, minute, half),
  },
  { kind: 'time', pattern: /\b(\d{1,2}) ?([ap])\.?m\b\.?/gi, read: ([, hour, half]) => timeOf(hour, '00', half) },
  { kind: 'phone', pattern: /\+\d[\d ()/.-]{6,18}\d/g, read: ([text]) => `+${text.replaceAll(/\D/g, '')}` },
  {
    kind: 'amount',
    pattern: new RegExp(String.raw`${CURRENCY} ?(${DIGITS})|(${DIGITS}) ?${CURRENCY}`, 'gi'),
    read: ([, behind, before]) => numberOf(behind ?? before ?? ''),
  },
  { kind: 'id', pattern: /#?[\p{L}\p{N}]+(?:[-_:#.][\p{L}\p{N}]+)*/gu, read: ([text]) => (isId(text) ? text : undefined) },
  { kind: 'number', pattern: new RegExp(String.raw`-?\b${DIGITS}`, 'g'), read: ([text]) => numberOf(text) },
];

/** A word before a value in its sentence that makes it no consent: a negation, or the bound of a range. */
const NO_CONSENT =
  /\b(?:no|not|never|none|nor|neither|without|except|but|instead|rather|than|avoid|don['’]?t|do not|doesn['’]?t|won['’]?t|can['’]?t|cannot|shouldn['’]?t|mustn['’]?t|isn['’]?t|kein\w*|nicht|nie|niemals|ohne|statt|außer|pas|jamais|sans|ni|nunca|sin)\b/i;
const RANGE =
  /\b(?:between|from|up to|at (?:most|least)|more than|less than|over|under|above|below|about|around|approximately|until|before|after|max(?:imum)?|min(?:imum)?|zwischen|bis|höchstens|mindestens|etwa|ungefähr)\W*$/i;
/** The end of a range: the number behind `and` in "between 5 and 50". */
const RANGE_END = /\b(?:between|from|zwischen|von|entre|de)\b[^.;!?]*(?:\b(?:and|to|until|till|bis|und|et|y|à|a)\b|[-–—])\s*$/i;
const CONTINUED = /^\s*(?:-|–|—|to\b|and above|or (?:more|less|fewer|above|below)|bis\b|oder\b|±)/i;

/** A word where a sentence asks for something: at its beginning, behind a condition, or behind words that make it a request. Anywhere else it may tell what was, or what others want. */
const ASKING =
  /(?:^\W*(?:if|when|once|as soon as)\b[^.!?]*,\s+|^\W*|\b(?:please|and|then|now|also|just|you to|(?:can|could|would|will) you|i (?:want|need|wish) to|i(?:['’]d| would) like to)\s+)(?:(?:please|then|now|also|just)\s+)*(\p{L}+)/giu;
const POLITE = /^\W*(?:please\s+)?(?:can|could|would|will) you\b/i;
const QUOTED = /"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|(?<!\p{L})['‘][^'’]*['’](?!\p{L})/gu;

/** Returns the words by which a sentence asks for something; none where it is a question, or no consent. */
function commandsIn(sentence: string): readonly string[] {
  const isQuestion = sentence.trimEnd().endsWith('?') && !POLITE.test(sentence);
  if (isQuestion || NO_CONSENT.test(sentence)) return [];
  return [...sentence.replaceAll(QUOTED, ' ').matchAll(ASKING)].flatMap(([, word]) => (word === undefined ? [] : wordsIn(word)));
}

/** The words of a user, as far as they ask for a call: values whose kind leaves no doubt, outside of negations and ranges. */
export class UserRequest {
  private readonly named: readonly NamedValue[];
  /** Those of the sentences that ask for something. */
  private readonly requested: readonly NamedValue[];
  private readonly words: ReadonlySet<string>;
  private readonly commands: ReadonlySet<string>;

  constructor(texts: readonly string[]) {
    const sentences = texts.flatMap((text) => text.normalize('NFKC').split(/(?<=[.!?;])\s+|\n+/));
    this.named = sentences.flatMap(valuesIn);
    const asking = sentences.filter((sentence) => commandsIn(sentence).length > 0);
    this.requested = asking.flatMap(valuesIn);
    this.words = new Set(asking.flatMap((sentence) => wordsIn(sentence).map(stemOf)));
    this.commands = new Set(asking.flatMap((sentence) => commandsIn(sentence).map(stemOf)));
  }

  /** Tells whether the user named a tool and every decisive argument of a call of it, and nothing else that could stand in its place. */
  names({ declaredId, inputSchema, labels }: Pick<PolicyTool, 'declaredId' | 'inputSchema' | 'labels'>, args: JsonObject): boolean {
    if (!this.hasWordsOf(declaredId)) return false;
    const names = labels.decisive ?? Object.keys(args);
    const values = names.flatMap((name) => argumentsIn(name, args[name], propertyOf(inputSchema, name)));
    const telling = values.filter((value) => !this.isGiven(value));
    return telling.length > 0 && telling.every((value) => this.isTraced(value, telling));
  }

  /** The last part of the id: its verb, and one more of its words where it has more. */
  private hasWordsOf(declaredId: string): boolean {
    const [verb, ...others] = wordsIn(declaredId.replace(/^.*(?:__|_\*_)/, ''));
    if (verb === undefined || !this.commands.has(stemOf(verb))) return false;
    return others.length === 0 || others.some((word) => this.words.has(stemOf(word)));
  }

  /** A switch or a choice only as its default, or as it was named. */
  private isGiven({ name, value, schema }: Argument): boolean {
    if (schema.default !== undefined && value === schema.default) return true;
    if (typeof value === 'boolean') return value && wordsIn(name).every((word) => this.words.has(stemOf(word)));
    if (!schema.enum || typeof value !== 'string') return false;
    const words = wordsIn(value);
    return words.length > 0 && words.every((word) => this.words.has(stemOf(word)));
  }

  /** The user must have named no other value of the kind that the call does not take: which of them they meant, someone else could have decided. */
  private isTraced({ name, value, schema }: Argument, all: readonly Argument[]): boolean {
    if (typeof value === 'boolean' || schema.enum) return false;
    const kinds = typeof value === 'number' ? numberKinds(name) : kindsOf(value);
    return kinds.some(({ kind, value: normal }) => {
      const named = new Set(this.named.flatMap((one) => (one.kind === kind ? [one.value] : [])));
      const taken = all.filter((other) => kindsIn(other).some((one) => one.kind === kind && named.has(one.value)));
      const isRequested = this.requested.some((one) => one.kind === kind && one.value === (normal ?? String(value)));
      return isRequested && named.size <= new Set(taken.map((other) => String(other.value))).size;
    });
  }
}

/** A scalar of a call's arguments. */
interface Argument {
  readonly name: string;
  readonly value: string | number | boolean;
  readonly schema: JSONSchema7;
}

function argumentsIn(name: string, value: JsonValue | undefined, schema: JSONSchema7): readonly Argument[] {
  if (value === undefined || value === null || value === '') return [];
  if (isJsonList(value)) return value.flatMap((item) => argumentsIn(name, item, itemsOf(schema)));
  if (!isJsonObject(value)) return [{ name, value, schema }];
  return Object.entries(value).flatMap(([key, item]) => {
    const isDeclared = schema.properties !== undefined && Object.hasOwn(schema.properties, key);
    const inner = argumentsIn(key, item, propertyOf(schema, key));
    return isDeclared ? inner : inner.concat({ name: key, value: key, schema: {} });
  });
}

function propertyOf({ properties = {} }: JSONSchema7, name: string): JSONSchema7 {
  const property: JSONSchema7Definition | undefined = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return typeof property === 'object' ? property : {};
}

function itemsOf({ items }: JSONSchema7): JSONSchema7 {
  return typeof items === 'object' && !Array.isArray(items) ? items : {};
}

const NAME_OF_ID =
  /(?:^|[^a-z])(?:id|ids|key|no|nr|number|ref|reference|code|index)$|(?:Id|Ids|Key|No|Nr|Number|Ref|Reference|Code|Index)$/;

/** The kinds that a numeric argument can have: a number alone is no id. */
function numberKinds(name: string): readonly { readonly kind: Kind; readonly value?: string }[] {
  return NAME_OF_ID.test(name) ? [] : [{ kind: 'amount' }, { kind: 'number' }];
}

function kindsIn({ name, value }: Argument): readonly NamedValue[] {
  if (typeof value === 'string') return kindsOf(value);
  return typeof value === 'number' ? numberKinds(name).map(({ kind }) => ({ kind, value: String(value) })) : [];
}

/** The kinds of a text that is one value as a whole, but for a number: a text of digits alone would be an id. */
function kindsOf(text: string): readonly NamedValue[] {
  const trimmed = text.normalize('NFKC').trim();
  const [date = '', clock] = trimmed.split(/[T ](?=\d\d:)/);
  if (clock !== undefined) return [];
  for (const { kind, pattern, read } of FINDERS) {
    const [found] = trimmed.matchAll(pattern);
    if (!found || found[0] !== trimmed || kind === 'number') continue;
    const value = read(found);
    if (value !== undefined) return [{ kind, value }];
  }
  return kindOfCompact(date);
}

/** An IBAN or a phone number as programs write them. */
function kindOfCompact(text: string): readonly NamedValue[] {
  const iban = ibanOf(text);
  return iban === undefined ? [] : [{ kind: 'iban', value: iban }];
}

/** The values of a sentence that it consents to. */
function valuesIn(sentence: string): readonly NamedValue[] {
  const values: NamedValue[] = [];
  let rest = sentence;
  for (const { kind, pattern, read } of FINDERS) {
    for (const found of rest.matchAll(pattern)) {
      const value = read(found);
      if (kind === 'id' && value === undefined) continue;
      const before = sentence.slice(0, found.index);
      const isConsent =
        !NO_CONSENT.test(before) &&
        !RANGE.test(before) &&
        !RANGE_END.test(before) &&
        !CONTINUED.test(sentence.slice(found.index + found[0].length));
      if (value !== undefined) values.push({ kind, value: isConsent ? value : '' });
      rest = rest.slice(0, found.index) + ' '.repeat(found[0].length) + rest.slice(found.index + found[0].length);
    }
  }
  return values;
}

function addressOf(text: string): string | undefined {
  return URL.canParse(text) ? new URL(text).href : undefined;
}

/** ISO 13616: the letters as numbers, the first four characters at the end, leave 1 when divided by 97. */
function ibanOf(text: string): string | undefined {
  const compact = text.replaceAll(/\s/g, '').toUpperCase();
  if (!/^[A-Z]{2}\d{2}[A-Z\d]{11,30}$/.test(compact)) return undefined;
  const digits = (compact.slice(4) + compact.slice(0, 4)).replaceAll(/[A-Z]/g, (letter) => String(Number.parseInt(letter, 36)));
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
  const hours = isHalved ? (Number(hour) % 12) + (half.toLowerCase() === 'p' ? 12 : 0) : Number(hour);
  return `${String(hours).padStart(2, '0')}:${minute}`;
}

/** Reads a number that has one meaning in every country: `1,234.50` and `3.5` have, `1.500` has two. */
function numberOf(text: string): string | undefined {
  const readings = new Set([asNumber(text, /[,'’]/g, '.'), asNumber(text, /[.'’]/g, ',')].filter((value) => !Number.isNaN(value)));
  const [only] = readings;
  return readings.size === 1 ? String(only) : undefined;
}

function asNumber(text: string, grouping: RegExp, decimal: string): number {
  const [whole = '', fraction = '', ...more] = text.split(decimal);
  const [first = '', ...groups] = whole.split(grouping);
  const isGrouped = groups.every((group) => group.length === 3) && (groups.length === 0 || first.replace('-', '').length <= 3);
  if (more.length > 0 || !isGrouped || /\D/.test(fraction)) return Number.NaN;
  return Number(`${first}${groups.join('')}.${fraction || '0'}`);
}

/** Letters and digits together, such as `KX-7` or `#W2378156`: a word is none, and a number alone is none either. */
function isId(text: string): boolean {
  return text.length >= 4 && /\d/.test(text) && /[\p{L}#]/u.test(text) && !/^\d+(?:st|nd|rd|th)$/i.test(text);
}

function wordsIn(text: string): readonly string[] {
  const parted = text.replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2').toLowerCase();
  return parted.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** A word without the endings by which English inflects it: enough to know `cancelled` as `cancel` and `orders` as `order`. */
function stemOf(word: string): string {
  const stem = word.replace(/(?:ing|ed|es|s|e)$/, '');
  const short = stem.length >= 3 ? stem : word;
  return short.replace(/([b-df-hj-np-tv-z])\1$/, '$1');
}

/** The characters of a word: letters and digits of any script. */
const WORD = /[\p{L}\p{N}]/u;
/** The characters that join two words into one name: `a.b`, `a-b`, `a@b`, `a/b`. */
const JOINT = /[.\-_@/\\:+~=&%#']/;
const DIGIT = /\p{N}/u;
const NUMBERS = /-?\d+(?:[.,]\d+)*/g;

/** The words with authority in a run, in which values are looked up. */
export class TrustedText {
  private readonly texts: readonly string[];
  private lowered: readonly string[] | undefined;
  private numbers: ReadonlySet<number> | undefined;

  constructor(texts: readonly string[]) {
    this.texts = texts.map(plain);
  }

  /**
   * Tells whether the words contain a value. A text must occur as whole words, in any spacing, and in any case if it has no digits: `KX-7` and `kx-7` may be two
   * things. A web address must occur letter by letter, since the case of each could tell its host something. A number may be written in any of the usual ways.
   */
  has(value: string | number): boolean {
    if (isWebAddress(value)) return this.texts.some((text) => standsIn(value, text));
    return typeof value === 'number' ? this.hasNumber(value) : this.hasWords(plain(value));
  }

  private hasWords(words: string): boolean {
    if (!WORD.test(words)) return false;
    if (DIGIT.test(words)) return this.texts.some((text) => standsIn(words, text));
    const lower = words.toLowerCase();
    this.lowered ??= this.texts.map((text) => text.toLowerCase());
    return this.lowered.some((text) => standsIn(lower, text));
  }

  private hasNumber(value: number): boolean {
    this.numbers ??= new Set(this.texts.flatMap((text) => (text.match(NUMBERS) ?? []).flatMap(readingsOf)));
    return this.numbers.has(value);
  }
}

function plain(text: string): string {
  return text.normalize('NFC').replace(/\s+/g, ' ').trim();
}

/** Tells whether a text contains words, but not within a longer word or name: `5` is not in `50`, `ann@a.org` not in `joann@a.org`, and `tea.co` not in `tea.co.uk`. */
function standsIn(words: string, text: string): boolean {
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
    const end = at + words.length;
    const goesOnBefore = continues(words.charAt(0), text.charAt(at - 1), text.charAt(at - 2));
    if (!goesOnBefore && !continues(words.charAt(words.length - 1), text.charAt(end), text.charAt(end + 1))) return true;
  }
  return false;
}

/** Tells whether a word continues beyond its edge, directly or behind a joint. */
function continues(edge: string, next: string, afterNext: string): boolean {
  if (!WORD.test(edge)) return JOINT.test(edge) && WORD.test(next);
  return WORD.test(next) || (JOINT.test(next) && WORD.test(afterNext));
}

/** Reads a number in the notations of different countries: `1,234.50`, `1.234,50` and `3,5`. Every possible meaning counts: `1.234` has two. */
function readingsOf(written: string): number[] {
  return [numberIn(written, ',', '.'), numberIn(written, '.', ',')].filter((value) => !Number.isNaN(value));
}

function numberIn(written: string, grouping: string, decimal: string): number {
  const [whole = '', fraction = '', ...more] = written.split(decimal);
  const [first = '', ...groups] = whole.split(grouping);
  const isGrouped = groups.every((group) => group.length === 3) && (groups.length === 0 || first.replace('-', '').length <= 3);
  return more.length === 0 && isGrouped && !fraction.includes(grouping)
    ? Number(`${first}${groups.join('')}.${fraction || '0'}`)
    : Number.NaN;
}
