import { readDate, readInstant, readTime, type Reading } from './dates.js';
import { stemsOf } from './words.js';

export type TokenKind = 'word' | 'punctuation' | 'quoted' | 'url' | 'email' | 'date-time' | 'date' | 'time' | 'id' | 'number';

/** One word, value or sign of what the user wrote. */
export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  /** Without quotes, possessive and thousands separators; dates in ISO form. */
  readonly value: string;
  readonly start: number;
  readonly lower: string;
  readonly stems: readonly string[];
  readonly possessive: boolean;
  readonly capital: boolean;
  readonly opensSentence: boolean;
}

type Reader = (text: string, index: number, today: string | undefined) => Reading | undefined;

const QUOTED =
  /"([^"]{1,500})"|“([^”]{1,500})”|«([^»]{1,500})»|`([^`]{1,500})`|(?<![\p{L}\p{N}])['‘]((?:[^'’]|['’](?=\p{L})){1,500})['’](?!\p{L})/uy;
const UNIT = /^\d+(?:\.\d+)?(?:kg|g|km|m|cm|mm|mi|lb|lbs|h|hr|hrs|min|mins|s|sec|ms|x|k|gb|mb|eur|usd|gbp|st|nd|rd|th)$/i;
const PATH = /(?<!\S)(?:~|\.{1,2})?(?:\/[\w.-]+)+\/?|[A-Z][A-Za-z]+\/[A-Z][A-Za-z_]+|[\w-]+(?:\/[\w-]+)*\/[\w-]+\.\w+/y;
const DOTTED = /[\p{L}\p{N}_-]+(?:\.[\p{Ll}\p{N}_-]+)+(?!\w)/uy;
const ID = /#\d+(?!\w)|[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*(?![\p{L}\p{N}])/uy;

const READERS: readonly (readonly [TokenKind, Reader])[] = [
  ['quoted', (text, index) => read(QUOTED, text, index, (match) => (match.slice(1).find((group) => group !== undefined) ?? '').trim())],
  ['url', (text, index) => read(/https?:\/\/[^\s"'<>]*[^\s"'<>.,;:!?)]/y, text, index)],
  ['email', (text, index) => read(/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/y, text, index)],
  ['date-time', readInstant],
  ['date', readDate],
  ['time', readTime],
  ['id', readId],
  ['number', readNumber],
  [
    'word',
    (text, index) =>
      read(/\p{Lu}\.(?=\s\p{Lu})|(?:Mr|Mrs|Ms|Dr|St|Prof)\.|[\p{L}_][\p{L}\p{M}\p{N}_]*(?:['’-]\p{L}+)*['’]?/uy, text, index),
  ],
  ['punctuation', (text, index) => read(/\S/y, text, index)],
];

function read(pattern: RegExp, text: string, index: number, value = (match: RegExpExecArray): string => match[0]): Reading | undefined {
  pattern.lastIndex = index;
  const match = pattern.exec(text);
  return match ? { length: match[0].length, value: value(match) } : undefined;
}

/** An id has a digit and a letter, or digits in groups; paths and dotted names count too, "3kg" and "2nd" do not. */
function readId(text: string, index: number): Reading | undefined {
  const named = read(PATH, text, index) ?? read(DOTTED, text, index);
  if (named && !/^[\d.]+$|^\p{L}(?:\.\p{L})*$/u.test(named.value)) return named;
  const found = read(ID, text, index);
  if (!found || UNIT.test(found.value)) return undefined;
  const looksLikeId = /\d/.test(found.value) && /[\p{L}#]|\d[-_]\d/u.test(found.value);
  return looksLikeId ? { length: found.length, value: found.value.replace(/^#/, '') } : undefined;
}

function readNumber(text: string, index: number): Reading | undefined {
  const signed = !/[\p{L}\p{N})]/u.test(text[index - 1] ?? ' ');
  const found = read(/[-−]?[$€£¥]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?/y, text, index);
  const negative = found && /^[-−]/.test(found.value);
  if (!found || (negative && !signed)) return undefined;
  const digits = found.value.replaceAll(/[^\d.]/g, '');
  return { length: found.length, value: negative ? `-${digits}` : digits };
}

/** Cuts what the user wrote into tokens; `today` (`YYYY-MM-DD`) completes dates without a year. */
export function tokensOf(text: string, today?: string): Token[] {
  const tokens: Token[] = [];
  const shouted = !/\p{Ll}/u.test(text);
  let index = 0;
  while (index < text.length) {
    const found = /\s/.test(text[index] ?? '') ? undefined : firstReading(text, index, today);
    if (found) tokens.push(tokenOf(found, { text, start: index, shouted, previous: tokens.at(-1) }));
    index += found?.length ?? 1;
  }
  return tokens;
}

type KindReading = Reading & { readonly kind: TokenKind; readonly possessive: boolean };

function firstReading(text: string, index: number, today: string | undefined): KindReading | undefined {
  for (const [kind, reader] of READERS) {
    const found = reader(text, index, today);
    if (found && found.length > 0) return withPossessive(found, kind, text.slice(index + found.length, index + found.length + 3));
  }
  return undefined;
}

/** Takes the `'s` off a value; on a word it is part of the reading, on anything else it follows. */
function withPossessive(found: Reading, kind: TokenKind, rest: string): KindReading {
  if (kind === 'word') {
    const value = found.value.replace(/['’]s?$/i, '');
    return { ...found, kind, value, possessive: value !== found.value };
  }
  const possessive = kind !== 'punctuation' && /^['’]s(?!\p{L})/u.test(rest);
  return { ...found, kind, possessive, length: found.length + (possessive ? 2 : 0) };
}

interface Place {
  readonly text: string;
  readonly start: number;
  readonly shouted: boolean;
  readonly previous: Token | undefined;
}

function tokenOf(found: KindReading, { text, start, shouted, previous }: Place): Token {
  const { kind, value, possessive } = found;
  return {
    kind,
    text: text.slice(start, start + found.length),
    value,
    start,
    lower: value.toLowerCase(),
    stems: kind === 'word' ? stemsOf(value) : [],
    possessive,
    capital: !shouted && /^\p{Lu}/u.test(value),
    opensSentence: previous === undefined || /^[.!?:;]$/.test(previous.text),
  };
}
