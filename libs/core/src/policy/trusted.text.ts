/** Letters and digits of any script: what a word consists of. */
const WORD = /[\p{L}\p{N}]/u;
/** What binds two words into one name: `a.b`, `a-b`, `a@b`, `a/b`. */
const JOINT = /[.\-_@/\\:+~=&%#']/;
const DIGIT = /\p{N}/u;
const NUMBER = /-?\d+(?:[.,]\d+)*/g;

/** The words that carry authority in a run, and whether a value stands in them. */
export class TrustedText {
  private readonly texts: readonly string[];
  private lowered: readonly string[] | undefined;
  private numbers: ReadonlySet<number> | undefined;

  constructor(texts: readonly string[]) {
    this.texts = texts.map(plain);
  }

  /**
   * A text stands there as whole words, in any spacing, and in any case where it has no digits: `KX-7` and `kx-7` may be two things. A number stands there in
   * any of the usual ways of writing it.
   */
  has(value: string | number): boolean {
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
    this.numbers ??= new Set(this.texts.flatMap((text) => (text.match(NUMBER) ?? []).flatMap(readingsOf)));
    return this.numbers.has(value);
  }
}

function plain(text: string): string {
  return text.normalize('NFC').replace(/\s+/g, ' ').trim();
}

/** Not within a longer word or name: `5` is not in `50`, `ann@a.org` not in `joann@a.org`, and `tea.co` not in `tea.co.uk`. */
function standsIn(words: string, text: string): boolean {
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
    const end = at + words.length;
    const goesOnBefore = continues(words.charAt(0), text.charAt(at - 1), text.charAt(at - 2));
    if (!goesOnBefore && !continues(words.charAt(words.length - 1), text.charAt(end), text.charAt(end + 1))) return true;
  }
  return false;
}

/** Whether a word goes on beyond its edge: at once, or behind a joint. */
function continues(edge: string, next: string, afterNext: string): boolean {
  if (!WORD.test(edge)) return JOINT.test(edge) && WORD.test(next);
  return WORD.test(next) || (JOINT.test(next) && WORD.test(afterNext));
}

/** `1,234.50`, `1.234,50` and `3,5` are written where different people live. What may be meant counts as said: `1.234` is a little or a lot. */
function readingsOf(written: string): number[] {
  return [asNumber(written, ',', '.'), asNumber(written, '.', ',')].filter((value) => !Number.isNaN(value));
}

function asNumber(written: string, grouping: string, decimal: string): number {
  const [whole = '', fraction = '', ...more] = written.split(decimal);
  const [first = '', ...groups] = whole.split(grouping);
  const isGrouped = groups.every((group) => group.length === 3) && (groups.length === 0 || first.replace('-', '').length <= 3);
  return more.length === 0 && isGrouped && !fraction.includes(grouping)
    ? Number(`${first}${groups.join('')}.${fraction || '0'}`)
    : Number.NaN;
}
