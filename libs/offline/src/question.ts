import { ASKING_VERBS, DAY_WORDS, DOING_VERBS, isPlainEnglish, isStopWord, list, NEGATIONS, PRONOUNS, stem, stemsOf } from './words.js';

type ValueKind = 'quoted' | 'url' | 'email' | 'date' | 'time' | 'day' | 'id' | 'number';

/** One word, value or sign of what the user wrote. */
export interface Token {
  readonly kind: ValueKind | 'word' | 'sign';
  /** Without quotes, possessive and thousands separators; dates in ISO form. */
  readonly value: string;
  readonly start: number;
  readonly lower: string;
  readonly stems: readonly string[];
  readonly possessive: boolean;
  readonly capital: boolean;
  readonly opensSentence: boolean;
}

/**
 * A value the user wrote. A `name` is capitalised, a `phrase` stands in lower case where a name would ("of john smith"), an `object` is any other
 * run of words that no tool speaks of, a `rest` is all that follows a colon, "saying" or "because".
 */
export interface Mention {
  readonly kind: ValueKind | 'name' | 'phrase' | 'object' | 'rest';
  readonly value: string;
  /** The tokens it spans, both ends included; negative where it stands in an earlier question. */
  readonly first: number;
  readonly last: number;
  /** Shared by mentions joined by commas or "and". */
  readonly group: number;
}

export interface Question {
  readonly text: string;
  readonly tokens: readonly Token[];
  readonly mentions: readonly Mention[];
  /** The words that ask for something. A weak one points at a tool but wants no answer; `token` is -1 where a word is only implied. */
  readonly words: readonly { readonly stem: string; readonly token: number; readonly weak: boolean }[];
}

/** The knowledge a question is read with: the stems that tools speak in, the day, and earlier questions, newest first. */
interface Reading {
  readonly vocabulary: ReadonlySet<string>;
  readonly today?: string | undefined;
  readonly earlier?: readonly string[];
}

/** Tells whether a mention can stand for one thing in the world. */
export function names({ kind }: Mention): boolean {
  return ['quoted', 'id', 'name', 'phrase', 'email', 'url'].includes(kind);
}

/** Tells whether a mention is sure to be a value; lower-case words may be grammar. */
export function isValue({ kind }: Mention): boolean {
  return kind !== 'phrase' && kind !== 'object' && kind !== 'rest';
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}

export function lowerAt(index: number, tokens: readonly Token[]): string {
  return tokens[index]?.lower ?? '';
}

/** Tells whether a token has one of the stems. */
export function hasStem(index: number, known: Iterable<string>, tokens: readonly Token[]): boolean {
  const stems = new Set(tokens[index]?.stems);
  return [...known].some((one) => stems.has(one));
}

/** Reads what the user wrote; a pronoun without a name stands for the names of the newest earlier question that has any. */
export function readQuestion(text: string, { vocabulary, today, earlier = [] }: Reading): Question {
  const tokens = tokensOf(text, today);
  const own = mentionsOf(text, tokens, vocabulary);
  const isRecalling = !own.some(names) && tokens.some(({ lower }) => PRONOUNS.has(lower));
  const before = isRecalling ? earlier.map((one) => mentionsOf(one, tokensOf(one, today), vocabulary).filter(names)) : [];
  const recalled = before.find(({ length }) => length > 0) ?? [];
  const placed = recalled.map(({ kind, value, group }, index): Mention => ({
    kind,
    value,
    first: -2 - index,
    last: -2 - index,
    group: -2 - group,
  }));
  const mentions = [...own, ...placed];
  const silent = new Set(own.filter(isValue).flatMap(({ first, last }) => range(first, last)));
  const said = tokens.flatMap(({ stems }, token) =>
    silent.has(token) ? [] : stems.map((one) => ({ stem: one, token, weak: WEAK.has(one) })),
  );
  const implied = IMPLIED.flatMap(([asked, words]) => (asked.test(text) ? (words.map(stem).find((one) => vocabulary.has(one)) ?? []) : []));
  const amount = /how much/i.test(text) ? ['price', 'amount'] : /how many/i.test(text) ? ['count'] : [];
  const weak = amount.map((word) => ({ stem: stem(word), token: -1, weak: true }));
  return { text, tokens, mentions, words: [...said, ...implied.map((one) => ({ stem: one, token: -1, weak: false })), ...weak] };
}

const WEAK = new Set([...ASKING_VERBS, 'information', 'detail', 'data', 'thing'].map(stem));
const OF_A_THING = String.raw`(?:(?:the|my|our|his|her|their|this|that|an?)\b|\S*\d|(?:\p{L}+\s+)?(?:\S*\d|\p{L}+['’]s\b))`;
/** Words that some ways of asking imply; the first that a tool knows is meant. */
const IMPLIED: readonly (readonly [asked: RegExp, words: readonly string[]])[] = [
  [/\bwhere\b/i, ['location', 'position']],
  [new RegExp(String.raw`\bwhat(?:['’]s|\s+(?:is|was|are|were))\s+(?:in|inside)\s+${OF_A_THING}`, 'iu'), ['content', 'item', 'line']],
];

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const MONTH = `(?:${MONTHS.map((name) => `[${name.charAt(0).toUpperCase()}${name.charAt(0)}]${name.slice(1)}`).join('|')})[a-z]*`;
/** The forms a text is cut into; the first that fits wins. */
const FORMS: readonly (readonly [Token['kind'], string])[] = [
  ['quoted', String.raw`"[^"]+"|“[^”]+”|${'`[^`]+`'}|(?<![\p{L}\p{N}])['‘](?:[^'’]|['’](?=\p{L}))+['’](?!\p{L})`],
  ['url', String.raw`https?:\/\/[^\s"'<>]*[^\s"'<>.,;:!?)]`],
  ['email', String.raw`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`],
  ['date', String.raw`\d{4}-\d{2}-\d{2}(?![\w-])|\b${MONTH} \d{1,2}(?:,? \d{4})?(?!\w)|\d{1,2} ${MONTH}(?:,? \d{4})?(?!\w)`],
  ['time', String.raw`\d{1,2}:\d{2}(?!\d)`],
  ['id', String.raw`(?<!\S)\.{0,2}(?:\/[\w.-]+)+|[\w-]+\.[a-z]{2,4}\b`],
  ['number', String.raw`\d+(?:\.\d+)?(?=(?:kg|k?m|g|cm|h|min|s|x|eur|usd|gbp)\b)`],
  ['id', String.raw`#\d+|(?=[\p{L}_-]*\d)(?=[\p{N}_-]*\p{L}|\d+[-_]\d)[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*`],
  ['number', String.raw`(?<![\p{L}\p{N})])-?[$€£]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?`],
  ['word', String.raw`\p{Lu}\.(?= \p{Lu})|[\p{L}_][\p{L}\p{M}\p{N}_]*(?:['’-]\p{L}+)*['’]?`],
  ['sign', String.raw`\S`],
];
const TOKEN = new RegExp(`(?:${FORMS.map(([, form]) => `(${form})`).join('|')})(['’]s(?!\\p{L}))?`, 'gu');

function tokensOf(text: string, today: string | undefined): Token[] {
  const isShouted = !/\p{Ll}/u.test(text);
  let previous = '';
  return [...text.matchAll(TOKEN)].map((match): Token => {
    const groups = match.slice(1, -1);
    const form = groups.findIndex((group) => group !== undefined);
    const written = groups[form] ?? '';
    const [kind, value] = valueOf(FORMS[form]?.[0] ?? 'sign', written, today);
    const [isWord, opensSentence] = [kind === 'word', /^$|[.!?:;]$/.test(previous)];
    const possessive = match.at(-1) !== undefined || (isWord && value !== written);
    const stems = isWord ? stemsOf(value) : [];
    previous = value;
    return {
      kind,
      value,
      start: match.index,
      lower: value.toLowerCase(),
      stems,
      possessive,
      capital: !isShouted && /^\p{Lu}/u.test(value),
      opensSentence,
    };
  });
}

/** A written value in canonical form; a date without a year is but a day unless `today` gives the year. */
function valueOf(kind: Token['kind'], written: string, today: string | undefined): [Token['kind'], string] {
  if (kind === 'quoted') return [kind, written.slice(1, -1).trim()];
  if (kind === 'number') return [kind, written.replaceAll(/[^\d.-]/g, '')];
  if (kind === 'date') return dateOf(written, today);
  if (DAY_WORDS.has(written.toLowerCase())) return ['day', written.toLowerCase()];
  return [kind, kind === 'word' ? written.replace(/['’]s?$/i, '') : written.replace(/^#/, '')];
}

function dateOf(written: string, today: string | undefined): [Token['kind'], string] {
  const month = MONTHS.findIndex((name) => written.toLowerCase().includes(name)) + 1;
  const [day = '', year = today?.slice(0, 4)] = written.match(/\d+/g) ?? [];
  if (month > 0 && year === undefined) return ['day', written];
  const date = month > 0 ? `${year}-${String(month).padStart(2, '0')}-${day.padStart(2, '0')}` : written;
  return isoDay(Date.parse(date)) === date ? ['date', date] : ['id', written];
}

function isoDay(time: number): string | undefined {
  return Number.isNaN(time) ? undefined : new Date(time).toISOString().slice(0, 10);
}

const DAY_MS = 86_400_000;

/** The date that "today", "tomorrow" or "yesterday" means, seen from `today`; undefined for any other word. */
export function dateOfWord(word: string, today: string): string | undefined {
  const offset = ['yesterday', 'today', 'tomorrow'].indexOf(word) - 1;
  return offset < -1 ? undefined : isoDay(Date.parse(today) + offset * DAY_MS);
}

const JOINING = new Set([',', 'and', 'or', '&', 'vs']);
type Span = Omit<Mention, 'group'>;

/** Values, names, what no tool speaks of, and the rest of a sentence, in the order of the text. */
function mentionsOf(text: string, tokens: readonly Token[], vocabulary: ReadonlySet<string>): Mention[] {
  const spans = tokens.flatMap(({ kind, value }, index): Span[] =>
    kind === 'word' || kind === 'sign' ? [] : [{ kind, value, first: index, last: index }],
  );
  spans.push(...runsOf(tokens, (index) => isCapital(index, tokens)).flatMap((run) => nameSpan(run, tokens, vocabulary)));
  const taken = new Set(spans.flatMap(({ first, last }) => range(first, last)));
  for (const [first, last] of runsOf(tokens, (index) => !taken.has(index) && isUnknown(index, tokens, vocabulary))) {
    const isJoined = spans.some(
      (other) => other.kind === 'phrase' && tokens.slice(other.last + 1, first).every(({ lower }) => JOINING.has(lower)),
    );
    const isName = isJoined || (tokens[last]?.possessive ?? false) || isIntroduced(first, tokens, vocabulary);
    spans.push(spanOf(isName ? 'phrase' : 'object', first, last, tokens));
  }
  const rests = tokens.flatMap(({ lower }, index): Mention[] => {
    const value = text.slice(tokens[index + 1]?.start ?? text.length).replace(/[.!?\s]+$/, '');
    const opens = value !== '' && [':', 'saying', 'because'].includes(lower);
    return opens ? [{ kind: 'rest', value, first: index + 1, last: tokens.length - 1, group: -1 }] : [];
  });
  let group = 0;
  const sorted = spans.toSorted((one, other) => one.first - other.first);
  const grouped = sorted.map((span, index): Mention => {
    const previous = sorted[index - 1];
    const between = previous?.kind === span.kind ? tokens.slice(previous.last + 1, span.first) : [];
    group = between.length > 0 && between.every(({ lower }) => JOINING.has(lower)) ? group : index + 1;
    return Object.assign(span, { group });
  });
  return [...grouped, ...rests];
}

function spanOf(kind: Mention['kind'], first: number, last: number, tokens: readonly Token[]): Span {
  const words = tokens.slice(first, last + 1).map(({ value }) => value);
  return { kind, value: words.join(' '), first, last };
}

type Run = [first: number, last: number];

/** The longest runs of tokens that fit; a possessive ends a run. */
function runsOf(tokens: readonly Token[], fits: (index: number) => boolean): Run[] {
  const runs: Run[] = [];
  for (const index of [...tokens.keys()].filter(fits)) {
    const open = runs.at(-1);
    if (open?.[1] === index - 1 && !(tokens[index - 1]?.possessive ?? true)) open[1] = index;
    else runs.push([index, index]);
  }
  return runs;
}

/** Tells whether a word is capitalised and no currency behind a number. */
function isCapital(index: number, tokens: readonly Token[]): boolean {
  const token = tokens[index];
  const isCurrency = tokens[index - 1]?.kind === 'number' && /^[A-Z]{3}$/.test(token?.value ?? '');
  return token?.kind === 'word' && token.capital && !isCurrency;
}

/** A run of capitals without the words around it that are grammar or name a kind of thing: "Customer John Smith" names John Smith. */
function nameSpan([first, last]: Run, tokens: readonly Token[], vocabulary: ReadonlySet<string>): Span[] {
  const isKind = ({ stems }: Token): boolean => stems.length > 0 && stems.every((one) => vocabulary.has(one));
  const isGrammar = (token: Token): boolean =>
    token.opensSentence ? isPlainEnglish(token.lower) : /^i\b/.test(token.lower) || !token.capital;
  const run = tokens.slice(first, last + 1);
  const from = run.findIndex((token) => !isKind(token) && !isGrammar(token));
  const to = run.findLastIndex((token, index) => index === from || !isKind(token));
  const { opensSentence, possessive } = run[from] ?? { opensSentence: false, possessive: false };
  const mayBeGrammar = from === to && opensSentence && !possessive && tokens.length > 1;
  return from < 0 ? [] : [spanOf(mayBeGrammar ? 'object' : 'name', first + from, first + to, tokens)];
}

const SUBJECTS = new Set(['i', 'you', 'we', 'they', 'to', 'please', "don't"]);

/** Tells whether a lower-case word is none that a tool or this model knows, and no verb either, as behind "can I". */
function isUnknown(index: number, tokens: readonly Token[], vocabulary: ReadonlySet<string>): boolean {
  const token = tokens[index];
  if (token?.kind !== 'word' || SUBJECTS.has(tokens[index - 1]?.lower ?? '') || isPlainEnglish(token.lower)) return false;
  return token.stems.some((one) => !vocabulary.has(one));
}

const INTRODUCING = new Set(list('of for about called named titled in at by from to on with into ='));

/** Tells whether a name is expected: behind a preposition, or behind the kind of thing it names. */
function isIntroduced(first: number, tokens: readonly Token[], vocabulary: ReadonlySet<string>): boolean {
  const previous = tokens[first - 1];
  if (!previous || previous.lower === 'the') return previous !== undefined;
  if (['a', 'an', 'my', 'our'].includes(previous.lower)) return INTRODUCING.has(tokens[first - 2]?.lower ?? '');
  const isVerb = ASKING_VERBS.has(previous.lower) || DOING_VERBS.has(previous.lower);
  return INTRODUCING.has(previous.lower) || (!isVerb && previous.stems.some((one) => vocabulary.has(one)));
}

const POLITE = new Set(['now', 'then', 'just', 'also', 'kindly', "let's", 'lets']);
const MODALS = new Set(['can', 'could', 'will', 'would', 'please', 'must', 'should']);
const WISHES = new Set(list('want like need love wish going have try you him her them'));
const OBJECTS = new Set(list('the a an it this that them him her his their my our all every me to for'));

/** The words the user gives as an order: "cancel it", "please cancel", "I want to cancel"; not "was it cancelled?", not "don't cancel it". */
export function ordersIn({ tokens, mentions, text }: Question, vocabulary: ReadonlySet<string>): Token[] {
  const lower = (index: number): string => tokens[index]?.lower ?? '';
  const isObject = (index: number): boolean =>
    OBJECTS.has(lower(index)) ||
    mentions.some((mention) => isValue(mention) && mention.first === index) ||
    (tokens[index]?.stems.some((one) => vocabulary.has(one)) ?? index >= tokens.length);
  const asks = (index: number): boolean => /^[^.!?]*(?:[.!?]\S[^.!?]*)*\?/.test(text.slice(tokens[index]?.start));
  const joins = (index: number): boolean => ['and', ','].includes(lower(index)) && isObject(index + 2);
  const isOrder = (index: number): boolean => {
    const [before, earlier] = [lower(index - 1), lower(index - 2)];
    if (before === 'you') return MODALS.has(earlier);
    if (before === 'please' || asks(index)) return before === 'please';
    if (before === 'to') return WISHES.has(earlier);
    return (tokens[index]?.opensSentence ?? false) || POLITE.has(before) || joins(index - 1);
  };
  return tokens.filter((token, index) => {
    const isNegated = [lower(index - 1), lower(index - 2)].some((before) => NEGATIONS.has(before) || before.endsWith("n't"));
    return token.kind === 'word' && !isStopWord(token.lower) && !isNegated && isOrder(index);
  });
}
