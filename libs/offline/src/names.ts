import { ALL_WORDS, COMMON_VERBS, DAY_WORDS } from './english.js';
import type { Token } from './question.tokens.js';
import { isStopWord } from './words.js';

/** The stems that stand in the tools' ids and property names; such words name kinds of things, not things. */
export type Vocabulary = ReadonlySet<string>;

/** Where a run of tokens lies, both ends included. */
export interface Span {
  readonly first: number;
  readonly last: number;
}

const PARTICLES = new Set(['of', 'the', 'and', 'van', 'von', 'de', 'der', 'den', 'la', 'le', 'du', 'di', 'da', 'al', 'bin']);
const ARTICLES = new Set(['a', 'an', 'the', 'my', 'our', 'this', 'that']);
const NAMING_WORDS = new Set('of for about called named titled in at by from to on with into ='.split(' '));
const JOINING_WORDS = new Set([',', 'and', 'or']);
const PLACING_WORDS = new Set(['in', 'at']);
const LONGEST_PHRASE = 6;

export function isVocabulary(token: Token | undefined, vocabulary: Vocabulary): boolean {
  return token !== undefined && token.stems.length > 0 && token.stems.every((stem) => vocabulary.has(stem));
}

function isContent(token: Token | undefined): token is Token {
  return token?.kind === 'word' && !isStopWord(token.lower) && !DAY_WORDS.has(token.lower) && !ALL_WORDS.has(token.lower);
}

/** Runs of capitalised words: "John Smith", "Bank of America", "The Hobbit". */
export function nameSpans(tokens: readonly Token[], vocabulary: Vocabulary): Span[] {
  const spans: Span[] = [];
  let index = 0;
  while (index < tokens.length) {
    const last = endOfRun(tokens, index);
    const span = last < index ? undefined : trimmed({ first: index, last }, tokens, vocabulary);
    if (span && tokens.slice(span.first, span.last + 1).some((token) => !DAY_WORDS.has(token.lower))) spans.push(span);
    index = Math.max(last, index) + 1;
  }
  return spans;
}

const isCapital = (token: Token | undefined): boolean => token?.kind === 'word' && token.capital;

function endOfRun(tokens: readonly Token[], first: number): number {
  let last = first - 1;
  let next = first;
  while (next < tokens.length && isCapital(tokens[next])) {
    last = next;
    if (tokens[next]?.possessive) return last;
    next += 1;
    const gap = particlesAt(tokens, next);
    if (gap > 0 && isCapital(tokens[next + gap])) next += gap;
  }
  return last;
}

/** How many particles follow; "and" joins two names as often as it is part of one, so it only counts behind another particle. */
function particlesAt(tokens: readonly Token[], index: number): number {
  if (!isParticle(tokens[index]) || tokens[index]?.lower === 'and') return 0;
  return isParticle(tokens[index + 1]) ? 2 : 1;
}

function isParticle(token: Token | undefined): boolean {
  return token !== undefined && !token.capital && PARTICLES.has(token.lower);
}

function trimmed(run: Span, tokens: readonly Token[], vocabulary: Vocabulary): Span | undefined {
  let { first, last } = run;
  while (first <= last && leads(tokens, first, vocabulary)) first += 1;
  while (first < last && isVocabulary(tokens[last], vocabulary)) last -= 1;
  return first <= last ? { first, last } : undefined;
}

function leads(tokens: readonly Token[], index: number, vocabulary: Vocabulary): boolean {
  const token = tokens[index];
  if (!token || token.lower === 'i' || /^i['’]/.test(token.lower) || PARTICLES.has(token.text)) return true;
  const opens = token.opensSentence && (isStopWord(token.lower) || COMMON_VERBS.has(token.lower));
  return opens || isVocabulary(token, vocabulary);
}

/** Where lower-case names are looked for: tokens that no other mention has, and words that only name kinds of things. */
export interface PhraseSearch {
  readonly tokens: readonly Token[];
  readonly taken: ReadonlySet<number>;
  readonly vocabulary: Vocabulary;
}

/** Lower-case words that stand where a name would: after "of", "for", "customer", before a possessive, or joined to such a phrase. */
export function phraseSpans(search: PhraseSearch): Span[] {
  const spans: Span[] = [];
  for (const [index, token] of search.tokens.entries()) {
    const owner = token.possessive ? ownerSpan(index, search) : undefined;
    const named = introduces(token, search) || continues(index, spans, search) ? spanAfter(index, search) : undefined;
    spans.push(...[owner, named].filter((span) => span !== undefined));
  }
  return spans;
}

/** What may or may not be a name: the object of a verb, what follows "the" or a colon, and a kind of thing behind "in": "in the kitchen". */
export function objectSpans(search: PhraseSearch): Span[] {
  const { tokens } = search;
  return tokens.flatMap(({ lower }, index) => {
    if (PLACING_WORDS.has(lower)) return placeSpan(index, search) ?? [];
    const span = COMMON_VERBS.has(lower) || lower === 'the' || lower === ':' ? spanAfter(index, search) : undefined;
    return span ? [withoutVerb(span, tokens)] : [];
  });
}

function placeSpan(index: number, search: PhraseSearch): Span | undefined {
  const { tokens, vocabulary } = search;
  const end = index + 1 + Number(ARTICLES.has(tokens[index + 1]?.lower ?? ''));
  const isPlace = isFree(end, search) && isVocabulary(tokens[end], vocabulary) && !isNamed(tokens[end + 1]);
  return isPlace ? { first: end, last: end } : undefined;
}

/** The last word of "What does the lamp cost?" is the verb. */
function withoutVerb({ first, last }: Span, tokens: readonly Token[]): Span {
  const asksWithDo = tokens.slice(0, first).some(({ lower }) => lower === 'does' || lower === 'do' || lower === 'did');
  const ends = tokens[last + 1] === undefined || tokens[last + 1]?.text === '?';
  return { first, last: asksWithDo && ends && last > first ? last - 1 : last };
}

/** Whether a token says which thing of a kind is meant: the "c1" of "cart c1". */
function isNamed(token: Token | undefined): boolean {
  return token !== undefined && (token.kind === 'id' || token.kind === 'number' || token.kind === 'quoted' || isCapital(token));
}

function isFree(index: number, { tokens, taken }: PhraseSearch): boolean {
  return !taken.has(index) && isContent(tokens[index]);
}

function introduces(token: Token, { vocabulary }: PhraseSearch): boolean {
  return NAMING_WORDS.has(token.lower) || (isVocabulary(token, vocabulary) && !COMMON_VERBS.has(token.lower));
}

function continues(index: number, spans: readonly Span[], { tokens }: PhraseSearch): boolean {
  const joins = JOINING_WORDS.has(tokens[index]?.lower ?? '') && spans.some(({ last }) => last === index - 1);
  return joins && !COMMON_VERBS.has(tokens[index + 1]?.lower ?? '');
}

function spanAfter(index: number, search: PhraseSearch): Span | undefined {
  const { tokens, vocabulary } = search;
  let first = index + 1;
  while (ARTICLES.has(tokens[first]?.lower ?? '') || tokens[first]?.text === ':') first += 1;
  const last = endOfPhrase(first, search);
  if (last < first || isVocabulary(tokens[last], vocabulary)) return undefined;
  while (first < last && isVocabulary(tokens[first], vocabulary)) first += 1;
  return { first, last };
}

function endOfPhrase(first: number, search: PhraseSearch): number {
  let last = first - 1;
  while (isFree(last + 1, search) && last - first < LONGEST_PHRASE) {
    last += 1;
    if (search.tokens[last]?.possessive) return last;
  }
  return last;
}

function ownerSpan(last: number, search: PhraseSearch): Span | undefined {
  const { tokens, vocabulary } = search;
  const belongs = (index: number): boolean =>
    isFree(index, search) && !isVocabulary(tokens[index], vocabulary) && !opensWithVerb(tokens[index]);
  if (!isFree(last, search) || isVocabulary(tokens[last], vocabulary)) return undefined;
  let first = last;
  while (last - first < 2 && belongs(first - 1)) first -= 1;
  return { first, last };
}

function opensWithVerb(token: Token | undefined): boolean {
  return token !== undefined && token.opensSentence && COMMON_VERBS.has(token.lower);
}
