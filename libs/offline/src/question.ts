import {
  ASKING_VERBS,
  DAY_WORDS,
  DOING_VERBS,
  isPlainEnglish,
  isStopWord,
  NEGATIONS,
  NUMBER_WORDS,
  PRONOUNS,
  stem,
  stemsOf,
  wordsOf,
} from './words.js';

type ValueKind = 'quoted' | 'url' | 'email' | 'date' | 'time' | 'id' | 'number';

/** One word, value or sign of what the user wrote. */
export interface Token {
  readonly kind: ValueKind | 'day' | 'word' | 'sign';
  /** Without quotes, possessive and thousands separators; dates and times in ISO form. */
  readonly value: string;
  readonly start: number;
  readonly lower: string;
  readonly stems: readonly string[];
  readonly possessive: boolean;
  readonly capital: boolean;
  readonly opensSentence: boolean;
}

/**
 * A value the user wrote. A `name` is capitalised, a `phrase` stands in lower case where a name would ("of john smith"), an `object` is any other run of
 * words that no tool speaks of, a `rest` is all that follows a colon, "saying" or "because".
 */
export interface Mention {
  readonly kind: ValueKind | 'day' | 'name' | 'phrase' | 'object' | 'rest';
  readonly value: string;
  /** The tokens it spans, both ends included; negative where it stands in an earlier question. */
  readonly first: number;
  readonly last: number;
  /** Shared by mentions joined by commas or "and". */
  readonly group: number;
}

/** A word that asks for something. A weak one points at a tool but wants no answer; `token` is -1 where the word is only implied. */
export interface QuestionWord {
  readonly stem: string;
  readonly token: number;
  readonly weak: boolean;
}

export interface Question {
  readonly text: string;
  readonly tokens: readonly Token[];
  readonly mentions: readonly Mention[];
  readonly words: readonly QuestionWord[];
}

export interface ReadingOptions {
  /** Stems of the words that tools speak in: they name kinds of things, not things. */
  readonly vocabulary: ReadonlySet<string>;
  /** `YYYY-MM-DD`; completes dates without a year. */
  readonly today?: string | undefined;
  /** What the user wrote before, newest first; a pronoun without a name reaches into it. */
  readonly earlier?: readonly string[];
}

const NAMING: ReadonlySet<Mention['kind']> = new Set(['quoted', 'id', 'name', 'phrase', 'email', 'url']);

/** Whether a mention can stand for one thing in the world. */
export function names({ kind }: Mention): boolean {
  return NAMING.has(kind);
}

/** Whether a mention is sure to be a value; lower-case words may be grammar. */
export function isValue({ kind }: Mention): boolean {
  return kind !== 'phrase' && kind !== 'object' && kind !== 'rest';
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}

export function readQuestion(text: string, options: ReadingOptions): Question {
  const tokens = tokensOf(text, options.today);
  const own = mentionsOf(text, tokens, options.vocabulary);
  const mentions = own.some(names) || !tokens.some(({ lower }) => PRONOUNS.has(lower)) ? own : [...own, ...recalled(options)];
  return { text, tokens, mentions, words: questionWords(text, tokens, own, options.vocabulary) };
}

/** The names of the newest earlier question that has any. */
function recalled({ earlier = [], vocabulary, today }: ReadingOptions): Mention[] {
  const named = earlier.map((text) => mentionsOf(text, tokensOf(text, today), vocabulary).filter(names)).find(({ length }) => length > 0);
  return (named ?? []).map(({ kind, value, group }, index) => ({ kind, value, first: -2 - index, last: -2 - index, group: -2 - group }));
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const MONTH = `(?:${MONTHS.map((name) => `[${name.charAt(0).toUpperCase()}${name.charAt(0)}]${name.slice(1)}`).join('|')})[a-z]*\\.?`;
const DAY = String.raw`\d{1,2}(?:st|nd|rd|th)?`;

/** What a text is cut into; the first form that fits wins. */
const FORMS: readonly (readonly [Token['kind'], string])[] = [
  [
    'quoted',
    String.raw`"[^"]{1,500}"|“[^”]{1,500}”|«[^»]{1,500}»|${'`[^`]{1,500}`'}|(?<![\p{L}\p{N}])['‘](?:[^'’]|['’](?=\p{L})){1,500}['’](?!\p{L})`,
  ],
  ['url', String.raw`https?:\/\/[^\s"'<>]*[^\s"'<>.,;:!?)]`],
  ['email', String.raw`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`],
  [
    'date',
    String.raw`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?(?!\w)|\d{4}[-/]\d{1,2}[-/]\d{1,2}(?![\w-])`,
  ],
  ['date', String.raw`\b${MONTH} ${DAY}(?:,? \d{4})?(?!\w)|${DAY}(?: of)? ${MONTH}(?:,? \d{4})?(?!\w)`],
  ['time', String.raw`\d{1,2}(?::\d{2}(?: ?[AaPp]\.?[Mm]\b)?| ?[AaPp]\.?[Mm]\b)`],
  ['id', String.raw`(?<!\S)\.{0,2}(?:\/[\w.-]+)+|[\w-]+(?:\/[\w-]+)*\.[a-z]{2,4}\b`],
  ['number', String.raw`\d+(?:\.\d+)?(?=(?:kg|k?m|g|cm|mm|lbs?|hr?s?|min|s|ms|x|gb|mb|eur|usd|gbp|st|nd|rd|th)\b)`],
  ['id', String.raw`#\d+|(?=[\p{L}_-]*\d)(?=[\p{N}_-]*\p{L}|\d+[-_]\d)[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*`],
  ['number', String.raw`(?<![\p{L}\p{N})])[-−]?[$€£¥]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?`],
  ['word', String.raw`\p{Lu}\.(?= \p{Lu})|[\p{L}_][\p{L}\p{M}\p{N}_]*(?:['’-]\p{L}+)*['’]?`],
  ['sign', String.raw`\S`],
];
const TOKEN = new RegExp(`(?:${FORMS.map(([, form]) => `(${form})`).join('|')})(['’]s(?!\\p{L}))?`, 'gu');

function tokensOf(text: string, today: string | undefined): Token[] {
  const isShouted = !/\p{Ll}/u.test(text);
  const tokens: Token[] = [];
  for (const match of text.matchAll(TOKEN)) {
    const groups = match.slice(1, FORMS.length + 1);
    const form = groups.findIndex((group) => group !== undefined);
    const written = groups[form] ?? '';
    const [kind, value] = valueOf(FORMS[form]?.[0] ?? 'sign', written, today);
    const previous = tokens.at(-1);
    tokens.push({
      kind,
      value,
      start: match.index,
      lower: value.toLowerCase(),
      stems: kind === 'word' ? stemsOf(value) : [],
      possessive: match.at(-1) !== undefined || (kind === 'word' && value !== written),
      capital: !isShouted && /^\p{Lu}/u.test(value),
      opensSentence: previous === undefined || /^[.!?:;]$/.test(previous.value),
    });
  }
  return tokens;
}

/** A written value in canonical form. What only looks like a date is no date. */
function valueOf(kind: Token['kind'], written: string, today: string | undefined): [Token['kind'], string] {
  switch (kind) {
    case 'quoted':
      return [kind, written.slice(1, -1).trim()];
    case 'date':
      return dateOf(written, today);
    case 'time':
      return timeOf(written);
    case 'id':
      return [kind, written.replace(/^#/, '')];
    case 'number':
      return [kind, written.replaceAll(/[^\d.−-]/g, '').replace('−', '-')];
    case 'word':
      return DAY_WORDS.has(written.toLowerCase()) ? ['day', written.toLowerCase()] : [kind, written.replace(/['’]s?$/i, '')];
    default:
      return [kind, written];
  }
}

/** A date as `YYYY-MM-DD`, an instant with seconds and zone; a date without a year is only a day unless `today` gives the year. */
function dateOf(written: string, today: string | undefined): [Token['kind'], string] {
  const [, date, time, seconds = ':00', zone = 'Z'] = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:[\d.]+)?(.*)$/.exec(written) ?? [];
  if (date !== undefined) return ['date', `${date}T${time ?? ''}${seconds}${zone || 'Z'}`];
  const [one = '', other = '', third] = written.match(/\d+/g) ?? [];
  const month = MONTHS.findIndex((name) => written.toLowerCase().includes(name)) + 1;
  const [year, monthText, day] = month > 0 ? [other || today?.slice(0, 4), String(month), one] : [one, other, third ?? ''];
  if (year === undefined) return ['day', written];
  const text = `${year}-${monthText.padStart(2, '0')}-${day.padStart(2, '0')}`;
  const parsed = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(text) ? ['date', text] : ['id', written];
}

function timeOf(written: string): [Token['kind'], string] {
  const [, hours = '', minutes = '00', half] = /^(\d+)(?::(\d+))? ?([ap])?/i.exec(written) ?? [];
  const hour = half === undefined ? Number(hours) : (Number(hours) % 12) + (half.toLowerCase() === 'p' ? 12 : 0);
  return hour > 23 || Number(minutes) > 59 ? ['id', written] : ['time', `${String(hour).padStart(2, '0')}:${minutes}`];
}

const OFFSETS: Readonly<Record<string, number>> = { yesterday: -1, today: 0, tonight: 0, tomorrow: 1 };
const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

/** The date that a word such as "tomorrow" or "friday" means, seen from `today`; undefined for any other word. */
export function dateOfWord(word: string, today: string): string | undefined {
  const date = new Date(`${today}T00:00:00Z`);
  const weekday = WEEKDAYS.indexOf(word);
  const offset = weekday < 0 ? OFFSETS[word] : (weekday - date.getUTCDay() + 7) % 7 || 7;
  if (offset === undefined || Number.isNaN(date.getTime())) return undefined;
  date.setUTCDate(date.getUTCDate() + offset);
  return date.toISOString().slice(0, 10);
}

type Span = Omit<Mention, 'group'>;

const JOINING = new Set([',', 'and', 'or', '&', 'vs', 'versus', 'also']);

/** Values, names, what no tool speaks of, and the rest of a sentence, in the order of the text. */
function mentionsOf(text: string, tokens: readonly Token[], vocabulary: ReadonlySet<string>): Mention[] {
  const values = tokens.flatMap((token, index) => valueSpan(token, index, tokens[index - 1]));
  const capitals = runsOf(tokens, (index) => isCapital(tokens, index)).flatMap((run) => nameSpan(run, tokens, vocabulary));
  const taken = new Set([...values, ...capitals].flatMap(({ first, last }) => range(first, last)));
  const isUnknown = (index: number): boolean =>
    !taken.has(index) && !isVerbBehindSubject(tokens, index) && isUnknownWord(tokens[index], vocabulary);
  const spans = [...values, ...capitals];
  for (const { first, last } of runsOf(tokens, isUnknown)) {
    const joined = spans.find(
      (other) => other.kind === 'phrase' && tokens.slice(other.last + 1, first).every(({ lower }) => JOINING.has(lower)),
    );
    const kind = joined || tokens[last]?.possessive || isIntroduced(tokens, first, vocabulary) ? 'phrase' : 'object';
    spans.push(spanOf(kind, first, last, tokens));
  }
  let group = 0;
  const sorted = spans.toSorted((one, other) => one.first - other.first);
  const mentions = sorted.map((span, index): Mention => {
    const previous = sorted[index - 1];
    const between = previous ? tokens.slice(previous.last + 1, span.first) : [];
    const isJoined = previous?.kind === span.kind && between.length > 0 && between.every(({ lower }) => JOINING.has(lower));
    group = isJoined ? group : index + 1;
    return { ...span, group };
  });
  return [...mentions, ...restMentions(text, tokens)];
}

function valueSpan(token: Token, index: number, previous: Token | undefined): Span[] {
  const { kind, value } = token;
  const place = { first: index, last: index };
  if (kind !== 'word') return kind === 'sign' ? [] : [{ ...place, kind, value }];
  const number = NUMBER_WORDS.indexOf(token.lower);
  const counts = number >= 0 && !['which', 'this', 'that', 'the', 'no', 'any'].includes(previous?.lower ?? '');
  return counts ? [{ ...place, kind: 'number', value: String(number) }] : [];
}

function spanOf(kind: Mention['kind'], first: number, last: number, tokens: readonly Token[]): Span {
  const words = tokens.slice(first, last + 1).map(({ value }) => value);
  return { kind, value: words.join(' '), first, last };
}

/** The longest runs of tokens that fit; a possessive ends a run. */
function runsOf(tokens: readonly Token[], fits: (index: number) => boolean): { readonly first: number; readonly last: number }[] {
  const runs: { first: number; last: number }[] = [];
  for (const index of tokens.keys()) {
    const open = runs.at(-1);
    const continues = open?.last === index - 1 && tokens[index - 1]?.possessive !== true;
    if (!fits(index)) continue;
    if (open && continues) open.last = index;
    else runs.push({ first: index, last: index });
  }
  return runs;
}

const PARTICLES = new Set(['of', 'the', 'van', 'von', 'de', 'der', 'den', 'la', 'le', 'du', 'di', 'da', 'al', 'bin']);

/** Whether a token is capitalised, or a particle between two that are: "Lord of the Rings". */
function isCapital(tokens: readonly Token[], index: number): boolean {
  const starts = (at: number): boolean => tokens[at]?.kind === 'word' && (tokens[at]?.capital ?? false);
  const isParticle = (at: number): boolean => PARTICLES.has(tokens[at]?.lower ?? '');
  const meets = (step: number): boolean => starts(index + step) || (isParticle(index + step) && starts(index + 2 * step));
  return starts(index) || (isParticle(index) && meets(-1) && meets(1));
}

/** A run of capitals without the words around it that are grammar or name a kind of thing: "Customer John Smith" names John Smith. */
function nameSpan(
  { first, last }: { readonly first: number; readonly last: number },
  tokens: readonly Token[],
  vocabulary: ReadonlySet<string>,
): Span[] {
  const isKind = ({ stems }: Token): boolean => stems.length > 0 && stems.every((one) => vocabulary.has(one));
  const leads = (token: Token): boolean =>
    /^i(?:['’]|$)/.test(token.lower) ||
    isKind(token) ||
    (!token.capital && PARTICLES.has(token.lower)) ||
    (token.opensSentence && isPlainEnglish(token.lower));
  const run = tokens.slice(first, last + 1);
  const from = run.findIndex((token) => !leads(token));
  const to = run.findLastIndex((token, index) => index === from || !isKind(token));
  if (from < 0) return [];
  const token = tokens[first + from];
  const mayBeGrammar = from === to && token?.opensSentence === true && !token.possessive && tokens.length > 1;
  return [spanOf(mayBeGrammar ? 'object' : 'name', first + from, first + to, tokens)];
}

function isUnknownWord(token: Token | undefined, vocabulary: ReadonlySet<string>): boolean {
  if (token?.kind !== 'word' || isPlainEnglish(token.lower)) return false;
  return token.stems.length > 0 && !token.stems.every((one) => vocabulary.has(one));
}

const SUBJECTS = new Set(['i', 'you', 'we', 'they', 'to', 'please', "don't"]);

/** "What can I cook": behind a subject stands a verb. */
function isVerbBehindSubject(tokens: readonly Token[], index: number): boolean {
  return SUBJECTS.has(tokens[index - 1]?.lower ?? '');
}

const INTRODUCING = new Set('of for about called named titled in at by from to on with into ='.split(' '));
const ARTICLES = new Set(['a', 'an', 'the', 'my', 'our']);

/** Whether a name is expected here: behind a preposition, or behind the kind of thing it names. */
function isIntroduced(tokens: readonly Token[], first: number, vocabulary: ReadonlySet<string>): boolean {
  const before = tokens[first - (ARTICLES.has(tokens[first - 1]?.lower ?? '') ? 2 : 1)];
  const isKind = before === tokens[first - 1] && before?.stems.some((one) => vocabulary.has(one)) === true && !isStopWord(before.lower);
  return (
    before !== undefined && (INTRODUCING.has(before.lower) || (isKind && !ASKING_VERBS.has(before.lower) && !DOING_VERBS.has(before.lower)))
  );
}

/** The text of a message, a note or a reason. */
function restMentions(text: string, tokens: readonly Token[]): Mention[] {
  return tokens.flatMap(({ lower }, index) => {
    const next = tokens[index + 1];
    if (![':', 'saying', 'because'].includes(lower) || !next) return [];
    const value = text
      .slice(next.start)
      .trim()
      .replace(/[.!?]+$/, '');
    return value === '' ? [] : [{ kind: 'rest' as const, value, first: index + 1, last: tokens.length - 1, group: -1 }];
  });
}

/** What some ways of asking mean without naming it; of several words the first that a tool knows is meant. */
const IMPLIED: readonly (readonly [asked: RegExp, words: readonly string[]])[] = [
  [/\bwhere\b/i, ['location', 'position', 'status']],
  [
    /\bwhat(?:['’]s|\s+(?:is|was|are|were))\s+(?:in|inside)\s+(?:(?:the|my|our|his|her|their|this|that|an?|each|all)\b|(?:\p{L}+\s+)?(?:\S*\d|\p{L}+['’]s\b|\p{L}+\s+\p{L}+['’]s\b))/iu,
    ['item', 'line', 'content', 'article'],
  ],
  [/\d\s*\+\s*\d/, ['add']],
  [/\d\s*[*×]\s*\d/, ['multiply']],
  [/\d\s*[/÷]\s*\d/, ['divide']],
  [/\d\s+[-−]\s+\d/, ['subtract']],
];
const WEAK_WORDS = new Set([...ASKING_VERBS, 'information', 'info', 'detail', 'data', 'value', 'thing', 'question'].map(stem));

function questionWords(
  text: string,
  tokens: readonly Token[],
  mentions: readonly Mention[],
  vocabulary: ReadonlySet<string>,
): QuestionWord[] {
  const silent = new Set(mentions.filter(isValue).flatMap(({ first, last }) => range(first, last)));
  const said = tokens.flatMap(({ stems }, token) =>
    silent.has(token) ? [] : stems.map((one) => ({ stem: one, token, weak: WEAK_WORDS.has(one) })),
  );
  const implied = IMPLIED.flatMap(([asked, words]) =>
    asked.test(text)
      ? words
          .map(stem)
          .filter((one) => vocabulary.has(one))
          .slice(0, 1)
      : [],
  );
  const counted = [...(/how many/i.test(text) ? ['count'] : []), ...(/how much/i.test(text) ? ['price', 'amount'] : [])];
  return [
    ...said,
    ...implied.map((one) => ({ stem: one, token: -1, weak: false })),
    ...counted.map((word) => ({ stem: stem(word), token: -1, weak: true })),
  ];
}

const POLITE = new Set(['now', 'then', 'just', 'also', 'kindly', "let's", 'lets']);
const MODALS = new Set(['can', 'could', 'will', 'would', 'please', 'must', 'should']);
const WISHES = new Set(['want', 'like', 'need', 'love', 'wish', 'going', 'have', 'try', 'you', 'him', 'her', 'them']);
const OBJECTS = new Set('the a an it this that them him her his their my our all every me to for'.split(' '));

/** The words the user gives as an order: "cancel it", "please cancel", "I want to cancel"; not "was it cancelled?", not "don't cancel it". */
export function ordersIn({ tokens, mentions, text }: Question, vocabulary: ReadonlySet<string>): Token[] {
  const valued = new Set(mentions.filter(isValue).map(({ first }) => first));
  const lower = (index: number): string => tokens[index]?.lower ?? '';
  const isNegated = (index: number): boolean => [index - 1, index - 2].some((at) => NEGATIONS.has(lower(at)) || lower(at).endsWith("n't"));
  const hasObject = (index: number): boolean =>
    index >= tokens.length ||
    OBJECTS.has(lower(index)) ||
    valued.has(index) ||
    /\W/.test(lower(index)) ||
    (tokens[index]?.stems.some((one) => vocabulary.has(one)) ?? false);
  return tokens.filter((token, index) => {
    if (token.kind !== 'word' || isStopWord(token.lower) || isNegated(index)) return false;
    const before = lower(index - 1);
    if (before === 'you') return MODALS.has(lower(index - 2));
    if (before === 'please') return true;
    if (before === 'me') return lower(index - 2) === 'help';
    if (/^[^.!?]*(?:[.!?]\S[^.!?]*)*\?/.test(text.slice(token.start))) return false;
    if (before === 'to') return WISHES.has(lower(index - 2));
    return token.opensSentence || POLITE.has(before) || ((before === 'and' || before === ',') && hasObject(index + 1));
  });
}
