import { isWebAddress } from '@toolloop/protocol';

/** The characters of a word: letters and digits of any script. */
const WORD = /[\p{L}\p{N}]/u;
/** The characters that join two words into one name: `a.b`, `a-b`, `a@b`, `a/b`. */
const JOINT = /[.\-_@/\\:+~=&%#']/;
/** Whole names: words, and words with joints between them, each as long as it can be. */
const NAMES = /[\p{L}\p{N}](?:[\p{L}\p{N}.\-_@/\\:+~=&%#']*[\p{L}\p{N}_])?/gu;
const DIGIT = /\p{N}/u;
const NUMBERS = /-?\d+(?:[.,]\d+)*/g;

/** The words with authority in a run, in which values are looked up. */
export class TrustedText {
  private readonly texts: readonly string[];
  private lowered: readonly string[] | undefined;
  private numbers: ReadonlySet<number> | undefined;
  private names: ReadonlySet<string> | undefined;

  constructor(texts: readonly string[]) {
    this.texts = texts.map(plain);
  }

  /**
   * Tells whether the words contain a value. A text must occur as whole words, in any spacing, and
   * in any case if it has no digits: `KX-7` and `kx-7` may be two things. A web address must occur
   * letter by letter, since the case of each could tell its host something. A number may be written
   * in any of the usual ways.
   */
  has(value: string | number): boolean {
    if (isWebAddress(value)) return this.texts.some((text) => standsIn(value, text));
    return typeof value === 'number' ? this.hasNumber(value) : this.hasWords(plain(value));
  }

  /** Returns the different names of some kind, letter by letter, such as the ids that there are. */
  wordsThat(isSuch: (word: string) => boolean): readonly string[] {
    this.names ??= new Set(this.texts.flatMap((text) => text.match(NAMES) ?? []));
    return [...this.names].filter(isSuch);
  }

  private hasWords(words: string): boolean {
    if (!WORD.test(words)) return false;
    if (DIGIT.test(words)) return this.texts.some((text) => standsIn(words, text));
    const lower = words.toLowerCase();
    this.lowered ??= this.texts.map((text) => text.toLowerCase());
    return this.lowered.some((text) => standsIn(lower, text));
  }

  private hasNumber(value: number): boolean {
    this.numbers ??= new Set(
      this.texts.flatMap((text) => (text.match(NUMBERS) ?? []).flatMap(readingsOf)),
    );
    return this.numbers.has(value);
  }
}

function plain(text: string): string {
  return text.normalize('NFC').replace(/\s+/g, ' ').trim();
}

/**
 * Tells whether a text contains words, but not within a longer word or name: `5` is not in `50`,
 * `ann@a.org` not in `joann@a.org`, and `tea.co` not in `tea.co.uk`.
 */
function standsIn(words: string, text: string): boolean {
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
    const end = at + words.length;
    const goesOnBefore = continues(words.charAt(0), text.charAt(at - 1), text.charAt(at - 2));
    if (
      !goesOnBefore &&
      !continues(words.charAt(words.length - 1), text.charAt(end), text.charAt(end + 1))
    )
      return true;
  }
  return false;
}

/** Tells whether a word continues beyond its edge, directly or behind a joint. */
function continues(edge: string, next: string, afterNext: string): boolean {
  if (!WORD.test(edge)) return JOINT.test(edge) && WORD.test(next);
  return WORD.test(next) || (JOINT.test(next) && WORD.test(afterNext));
}

/**
 * Reads a number in the notations of different countries: `1,234.50`, `1.234,50` and `3,5`. Every
 * possible meaning counts: `1.234` has two.
 */
function readingsOf(written: string): number[] {
  return [asNumber(written, /,/g, '.'), asNumber(written, /\./g, ',')].filter(
    (value) => !Number.isNaN(value),
  );
}

/**
 * Reads a number in one of the notations of different countries; NaN where it is none in that one.
 */
function asNumber(text: string, grouping: RegExp, decimal: string): number {
  const [whole = '', fraction = '', ...more] = text.split(decimal);
  const [first = '', ...groups] = whole.split(grouping);
  const isGrouped =
    groups.every((group) => group.length === 3) &&
    (groups.length === 0 || first.replace('-', '').length <= 3);
  if (more.length > 0 || !isGrouped || /\D/.test(fraction)) return Number.NaN;
  return Number(`${first}${groups.join('')}.${fraction || '0'}`);
}
