import { DAY_WORDS, NUMBER_WORDS, PRONOUNS, SAYING_VERBS, SEARCH_VERBS } from './english.js';
import { nameSpans, objectSpans, phraseSpans, type Span, type Vocabulary } from './names.js';
import { tokensOf, type Token, type TokenKind } from './question.tokens.js';
import { stem } from './words.js';

export type MentionKind = Exclude<TokenKind, 'word' | 'punctuation'> | 'name' | 'phrase' | 'object' | 'day' | 'rest';

/** A value the user wrote, from which arguments are filled. */
export interface Mention extends Span {
  readonly kind: MentionKind;
  readonly value: string;
  /** Mentions joined by "and" or commas share a number. */
  readonly group: number;
}

/** A word of the request that a tool or a result should answer. */
export interface QuestionWord {
  readonly stem: string;
  /** Index of its token; -1 when it is only meant, as "count" in "how many". */
  readonly token: number;
  /** Points somewhere without asking for anything. */
  readonly weak: boolean;
}

/** The user's newest words, cut into what can be looked for and what can be filled in. */
export interface Question {
  readonly text: string;
  readonly tokens: readonly Token[];
  readonly mentions: readonly Mention[];
  readonly words: readonly QuestionWord[];
}

export interface ReadingOptions {
  readonly vocabulary: Vocabulary;
  /** `YYYY-MM-DD`; completes dates without a year. */
  readonly today?: string;
  /** What the user wrote before, newest first; a pronoun without a name reaches into it. */
  readonly earlier?: readonly string[];
}

const NAMED_KINDS: ReadonlySet<MentionKind> = new Set(['quoted', 'id', 'name', 'phrase', 'email', 'url']);
const WEAK_WORDS = ['information', 'info', 'detail', 'data', 'value', 'thing', 'question'];
const WEAK_STEMS: ReadonlySet<string> = new Set([...SEARCH_VERBS, ...SAYING_VERBS, ...WEAK_WORDS].map(stem));

/** Whether a mention can stand for one thing in the world. */
export function names(mention: Mention): boolean {
  return NAMED_KINDS.has(mention.kind);
}

/** Whether a mention is sure to be a value; lower-case words may be grammar. */
export function isValue({ kind }: Mention): boolean {
  return kind !== 'phrase' && kind !== 'object' && kind !== 'rest';
}

export function readQuestion(text: string, options: ReadingOptions): Question {
  const tokens = tokensOf(text, options.today);
  const own = mentionsOf(text, tokens, options.vocabulary);
  const mentions = own.some(names) || !tokens.some((token) => PRONOUNS.has(token.lower)) ? own : [...own, ...recalled(options)];
  return { text, tokens, mentions, words: questionWords(text, tokens, own, options.vocabulary) };
}

/** The names of the newest earlier question that has any; their positions are negative, since they stand in another text. */
function recalled({ earlier = [], vocabulary, today }: ReadingOptions): Mention[] {
  for (const text of earlier) {
    const named = mentionsOf(text, tokensOf(text, today), vocabulary).filter(names);
    if (named.length > 0)
      return named.map(({ kind, value, group }, index) => ({ kind, value, first: -2 - index, last: -2 - index, group: -2 - group }));
  }
  return [];
}

type UngroupedMention = Omit<Mention, 'group'>;

function mentionsOf(text: string, tokens: readonly Token[], vocabulary: Vocabulary): Mention[] {
  const fixed = tokens.flatMap((token, index) => fixedMention(token, index, tokens[index - 1]));
  const named = nameSpans(tokens, vocabulary).map((span) => worded(span, nameKind(span, tokens), tokens));
  const taken = new Set([...fixed, ...named].flatMap(({ first, last }) => range(first, last)));
  const search = { tokens, taken, vocabulary };
  const phrases = phraseSpans(search).map((span) => worded(span, 'phrase', tokens));
  const objects = objectSpans(search).map((span) => worded(span, 'object', tokens));
  const all = [...fixed, ...named, ...distinct([...phrases, ...objects])];
  const sorted = all.toSorted((one, other) => one.first - other.first || other.last - one.last);
  return [...grouped(sorted, tokens), ...restMentions(text, tokens)];
}

function worded({ first, last }: Span, kind: MentionKind, tokens: readonly Token[]): UngroupedMention {
  const words = tokens.slice(first, last + 1).map((token) => token.value);
  return { kind, value: words.join(' '), first, last };
}

/** One mention for each span, the first. */
function distinct(mentions: readonly UngroupedMention[]): UngroupedMention[] {
  return [...new Map(mentions.toReversed().map((mention) => [`${mention.first}-${mention.last}`, mention])).values()].toReversed();
}

function fixedMention(token: Token, index: number, previous: Token | undefined): Omit<Mention, 'group'>[] {
  const place = { first: index, last: index };
  if (DAY_WORDS.has(token.lower)) return [{ ...place, kind: 'day', value: token.lower }];
  if (token.kind !== 'word') return token.kind === 'punctuation' ? [] : [{ ...place, kind: token.kind, value: token.value }];
  const number = NUMBER_WORDS.get(token.lower);
  const counts = number !== undefined && !['which', 'this', 'that', 'the', 'no', 'any'].includes(previous?.lower ?? '');
  return counts ? [{ ...place, kind: 'number', value: String(number) }] : [];
}

/** One capital at the start of a sentence may be grammar, so it is no more than a phrase. */
function nameKind({ first, last }: Span, tokens: readonly Token[]): 'name' | 'object' {
  const token = tokens[first];
  return first === last && token?.opensSentence && !token.possessive && tokens.length > 1 ? 'object' : 'name';
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}

const JOINING = new Set([',', 'and', 'or', '&', 'vs', 'versus', 'also']);

function grouped(mentions: readonly UngroupedMention[], tokens: readonly Token[]): Mention[] {
  let group = 0;
  return mentions.map(({ kind, value, first, last }, index) => {
    const previous = mentions[index - 1];
    const between = previous ? tokens.slice(previous.last + 1, first) : [];
    const joined = previous?.kind === kind && between.length > 0 && between.every((token) => JOINING.has(token.lower));
    group = joined ? group : index + 1;
    return { kind, value, first, last, group };
  });
}

const REST_WORDS = new Set([':', 'saying', 'says', 'that', 'to', 'because']);

/** What follows a colon or "saying", to the end: the text of a message, of a note, of a reason. */
function restMentions(text: string, tokens: readonly Token[]): Mention[] {
  return tokens.flatMap((token, index) => {
    const next = tokens[index + 1];
    if (!REST_WORDS.has(token.lower) || !next) return [];
    const value = text
      .slice(next.start)
      .trim()
      .replace(/[.!?]+$/, '');
    return value ? [{ kind: 'rest' as const, value, first: index + 1, last: tokens.length - 1, group: -1 }] : [];
  });
}

/** What "where" asks for, so far as a tool knows of it. */
const WHEREABOUTS = ['location', 'position', 'status'];

/** What "what is in it" asks for, so far as a tool knows of it. */
const CONTENTS = ['item', 'line', 'content', 'article', 'entry'];
/** Behind "in" stands a thing, by an article, an id or whose it is: "in stock" is a state. */
const ASKS_FOR_CONTENTS =
  /\bwhat(?:['’]s|\s+(?:is|was|are|were))\s+(?:in|inside)\s+(?:(?:the|my|our|your|his|her|its|their|this|that|an?|each|every|all)\b|(?:\p{L}+\s+)?(?:\S*\d|\p{L}+['’]s\b))/iu;

function questionWords(text: string, tokens: readonly Token[], mentions: readonly Mention[], vocabulary: Vocabulary): QuestionWord[] {
  const silent = new Set(mentions.filter(isValue).flatMap(({ first, last }) => range(first, last)));
  const said = tokens.flatMap((token, index) =>
    silent.has(index) ? [] : token.stems.map((found) => ({ stem: found, token: index, weak: WEAK_STEMS.has(found) })),
  );
  const meant = [...(/how many/i.test(text) ? ['count'] : []), ...(/how much/i.test(text) ? ['price', 'amount'] : [])];
  const places = /\bwhere\b/i.test(text) ? WHEREABOUTS.filter((word) => vocabulary.has(stem(word))).slice(0, 1) : [];
  const contents = ASKS_FOR_CONTENTS.test(text) ? CONTENTS.filter((word) => vocabulary.has(stem(word))).slice(0, 1) : [];
  const signs = [...operators(tokens), ...places, ...contents].map((word) => ({ stem: stem(word), token: -1, weak: false }));
  return [...said, ...signs, ...meant.map((word) => ({ stem: stem(word), token: -1, weak: true }))];
}

const OPERATORS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    '+': 'add',
    '*': 'multiply',
    '×': 'multiply',
    '/': 'divide',
    '÷': 'divide',
    '-': 'subtract',
    '−': 'subtract',
  }),
);

/** The verbs that signs between numbers stand for. */
function operators(tokens: readonly Token[]): string[] {
  return tokens.flatMap(({ text }, index) =>
    tokens[index - 1]?.kind === 'number' && tokens[index + 1]?.kind === 'number' ? (OPERATORS.get(text) ?? []) : [],
  );
}
