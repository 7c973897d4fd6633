import {
  ASKING_VERBS,
  DOING_VERBS,
  isPlainEnglish,
  STOP_WORDS,
  list,
  NEGATIONS,
  stem,
  stemsOf,
} from './words.js';

export interface Question {
  readonly text: string;
  readonly tokens: readonly Token[];
  readonly mentions: readonly Mention[];
  /**
   * The stems of the words that want an answer, and where they stand; -1 for one that is only
   * implied.
   */
  readonly words: readonly { readonly stem: string; readonly token: number }[];
}

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
 * A value the user wrote. A `name` is capitalised; a `phrase` stands in lower case where a value
 * would ("of john smith", "find dune").
 */
export interface Mention {
  readonly kind: ValueKind | 'name' | 'phrase';
  readonly value: string;
  /** The tokens it spans, both ends included. */
  readonly first: number;
  readonly last: number;
  /** Shared by mentions joined by commas or "and". */
  readonly group: number;
}

type ValueKind = 'quoted' | 'url' | 'email' | 'date' | 'id' | 'number';

/** Tells whether a mention can stand for one thing in the world. */
export function names({ kind }: Mention): boolean {
  return kind !== 'number' && kind !== 'date';
}

/** Tells whether a mention is sure to be a value; lower-case words may be grammar. */
export function isValue({ kind }: Mention): boolean {
  return kind !== 'phrase';
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}

/** Reads what the user wrote; the vocabulary are the stems that tools speak in. */
export function readQuestion(text: string, vocabulary: ReadonlySet<string>): Question {
  const tokens = tokensOf(text);
  const mentions = mentionsOf(tokens, vocabulary);
  const silent = new Set(mentions.filter(isValue).flatMap(({ first, last }) => range(first, last)));
  const said = tokens.flatMap(({ stems }, token) =>
    silent.has(token) ? [] : stems.map((one) => ({ stem: one, token })),
  );
  const content = WHAT_IS_IN.test(text)
    ? ['content', 'item', 'line'].map(stem).find((one) => vocabulary.has(one))
    : undefined;
  const implied = content === undefined ? [] : [{ stem: content, token: -1 }];
  return {
    text,
    tokens,
    mentions,
    words: [...said.filter((word) => !WEAK.has(word.stem)), ...implied],
  };
}

/** Words that point at a tool and want no answer of their own. */
const WEAK = new Set([...ASKING_VERBS, 'information', 'detail', 'data', 'thing'].map(stem));
const WHAT_IS_IN = /\bwhat(?:['’]s|\s+(?:is|was|are|were))\s+in(?:side)?\b(?!\s+stock)/i;

const FORMS: readonly (readonly [Token['kind'], string])[] = [
  [
    'quoted',
    String.raw`"[^"]+"|“[^”]+”|${'`[^`]+`'}|(?<![\p{L}\p{N}])['‘](?:[^'’]|['’](?=\p{L}))+['’](?!\p{L})`,
  ],
  ['url', String.raw`https?:\/\/[^\s"'<>]*[^\s"'<>.,;:!?)]`],
  ['email', String.raw`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`],
  ['date', String.raw`\d{4}-\d{2}-\d{2}(?![\w-])`],
  ['id', String.raw`(?<!\S)\.{0,2}(?:\/[\w.-]+)+|[\w-]+\.[a-z]{2,4}\b`],
  [
    'id',
    String.raw`#\d+|(?=[\p{L}_-]*\d)(?=[\p{N}_-]*\p{L}|\d+[-_]\d)[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*`,
  ],
  ['number', String.raw`(?<![\p{L}\p{N})])-?[$€£]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?`],
  ['sign', String.raw`(?<=\d )[A-Z]{3}\b`], // a currency
  ['word', String.raw`\p{Lu}\.(?= \p{Lu})|[\p{L}_][\p{L}\p{M}\p{N}_]*(?:['’-]\p{L}+)*['’]?`],
  ['sign', String.raw`\S`],
];
const TOKEN = new RegExp(
  `(?:${FORMS.map(([, form]) => `(${form})`).join('|')})(['’]s(?!\\p{L}))?`,
  'gu',
);

function tokensOf(text: string): Token[] {
  let previous = '';
  return [...text.matchAll(TOKEN)].map((match): Token => {
    const groups = match.slice(1, -1);
    const form = groups.findIndex((group) => group !== undefined);
    const kind = FORMS[form]?.[0] ?? 'sign';
    const written = groups[form] ?? '';
    const value = valueOf(kind, written);
    const opensSentence = /^$|[.!?:;]$/.test(previous);
    previous = value;
    return {
      kind,
      value,
      start: match.index,
      lower: value.toLowerCase(),
      stems: kind === 'word' ? stemsOf(value) : [],
      possessive: match.at(-1) !== undefined || (kind === 'word' && value !== written),
      capital: /^\p{Lu}/u.test(value),
      opensSentence,
    };
  });
}

function valueOf(kind: Token['kind'], written: string): string {
  if (kind === 'quoted') return written.slice(1, -1).trim();
  if (kind === 'number') return written.replaceAll(/[^\d.-]/g, '');
  return kind === 'word' ? written.replace(/['’]s?$/i, '') : written.replace(/^#/, '');
}

function mentionsOf(tokens: readonly Token[], vocabulary: ReadonlySet<string>): Mention[] {
  const mentions: Mention[] = [];
  for (const [first, last] of runsOf(tokens, (index) => isUnknown(index, tokens, vocabulary))) {
    const previous = mentions.at(-1);
    const isJoined = previous !== undefined && isJoining(tokens.slice(previous.last + 1, first));
    const run = tokens.slice(first, last + 1);
    const kind =
      kindOf(run) ?? (isJoined || isIntroduced(first, tokens, vocabulary) ? 'phrase' : undefined);
    const group = isJoined && previous.kind === kind ? previous.group : mentions.length;
    if (kind)
      mentions.push({ kind, value: run.map(({ value }) => value).join(' '), first, last, group });
  }
  return mentions;
}

function kindOf(run: readonly Token[]): Mention['kind'] | undefined {
  const [start] = run;
  if (!start || start.kind === 'sign') return undefined;
  if (start.kind !== 'word') return start.kind;
  const isPossessive = run.some(({ possessive }) => possessive);
  const isSure = run.length > 1 || isPossessive || !start.opensSentence;
  return start.capital && isSure ? 'name' : isPossessive ? 'phrase' : undefined;
}

const JOINING = new Set([',', 'and', 'or', '&', 'vs']);

function isJoining(between: readonly Token[]): boolean {
  return between.length > 0 && between.every(({ lower }) => JOINING.has(lower));
}

/**
 * The longest runs of unknown words, capitals apart from the others; a value stands alone, and a
 * possessive ends a run.
 */
function runsOf(
  tokens: readonly Token[],
  fits: (index: number) => boolean,
): [first: number, last: number][] {
  const runs: [number, number][] = [];
  for (const index of [...tokens.keys()].filter(fits)) {
    const [open, before, token] = [runs.at(-1), tokens[index - 1], tokens[index]];
    const isAlike =
      before?.kind === 'word' &&
      token?.kind === 'word' &&
      before.capital === token.capital &&
      !before.possessive;
    if (open?.[1] === index - 1 && isAlike) open[1] = index;
    else runs.push([index, index]);
  }
  return runs;
}

/** Tells whether a token is a value, or a word that neither a tool nor this model knows. */
function isUnknown(
  index: number,
  tokens: readonly Token[],
  vocabulary: ReadonlySet<string>,
): boolean {
  const token = tokens[index];
  if (token?.kind !== 'word') return token !== undefined && token.kind !== 'sign';
  const isNew =
    token.stems.some((one) => !vocabulary.has(one)) ||
    (token.stems.length === 0 && isNameInside(token));
  return isNew && (isNameInside(token) || !isPlainEnglish(token.lower));
}

function isNameInside({ capital, opensSentence, lower }: Token): boolean {
  return capital && !opensSentence && !/^i\b/.test(lower);
}

const INTRODUCING = new Set(
  list('of for about called named titled in at by from to on with into = the'),
);

/**
 * Tells whether a value is expected: behind a preposition, a verb, or the kind of thing it names.
 */
function isIntroduced(
  first: number,
  tokens: readonly Token[],
  vocabulary: ReadonlySet<string>,
): boolean {
  const [earlier, previous] = [tokens[first - 2], tokens[first - 1]];
  const before = previous && ['a', 'an', 'my', 'our'].includes(previous.lower) ? earlier : previous;
  if (!before) return false;
  const isVerb = ASKING_VERBS.has(before.lower) || DOING_VERBS.has(before.lower);
  return INTRODUCING.has(before.lower) || isVerb || before.stems.some((one) => vocabulary.has(one));
}

const POLITE = new Set(['now', 'then', 'just', 'also', 'kindly', "let's", 'lets']);
const MODALS = new Set(['can', 'could', 'will', 'would', 'please', 'must', 'should']);
const WISHES = new Set(list('want like need love wish going have try you him her them'));
const OBJECTS = new Set(
  list('the a an it this that them him her his their my our all every me to for'),
);

/**
 * The words the user gives as an order: "cancel it", "please cancel", "I want to cancel"; not "was
 * it cancelled?", not "don't cancel it".
 */
export function ordersIn(
  { tokens, mentions, text }: Question,
  vocabulary: ReadonlySet<string>,
): Token[] {
  const lower = (index: number): string => tokens[index]?.lower ?? '';
  const isObject = (index: number): boolean =>
    OBJECTS.has(lower(index)) ||
    mentions.some((mention) => isValue(mention) && mention.first === index) ||
    (tokens[index]?.stems.some((one) => vocabulary.has(one)) ?? index >= tokens.length);
  const asks = (index: number): boolean =>
    /^[^.!?]*(?:[.!?]\S[^.!?]*)*\?/.test(text.slice(tokens[index]?.start));
  const joins = (index: number): boolean =>
    ['and', ','].includes(lower(index)) && isObject(index + 2);
  const isOrder = (index: number): boolean => {
    const [before, earlier] = [lower(index - 1), lower(index - 2)];
    if (before === 'you') return MODALS.has(earlier);
    if (before === 'please' || asks(index)) return before === 'please';
    if (before === 'to') return WISHES.has(earlier);
    return (tokens[index]?.opensSentence ?? false) || POLITE.has(before) || joins(index - 1);
  };
  return tokens.filter((token, index) => {
    const isNegated = [lower(index - 1), lower(index - 2)].some(
      (before) => NEGATIONS.has(before) || before.endsWith("n't"),
    );
    return token.kind === 'word' && !STOP_WORDS.has(token.lower) && !isNegated && isOrder(index);
  });
}
