/** Letters and digits of any script: what a word consists of. */
const WORD = /[\p{L}\p{N}]/u;
const NUMBER = /\d+(?:[.,]\d+)*/g;

/** The words that carry authority in a run, and whether a value stands in them. */
export class TrustedText {
  private readonly texts: readonly string[];
  private numbers: ReadonlySet<number> | undefined;

  constructor(texts: readonly string[]) {
    this.texts = texts.map(plain);
  }

  /** A text stands there as whole words, without regard to case and spacing; a number in any of the usual ways of writing it. */
  has(value: string | number): boolean {
    return typeof value === 'number' ? this.hasNumber(value) : this.hasWords(plain(value));
  }

  private hasWords(words: string): boolean {
    return words !== '' && this.texts.some((text) => standsIn(words, text));
  }

  private hasNumber(value: number): boolean {
    this.numbers ??= new Set(this.texts.flatMap((text) => (text.match(NUMBER) ?? []).flatMap(readingsOf)));
    return this.numbers.has(Math.abs(value));
  }
}

function plain(text: string): string {
  return text.normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim();
}

/** Not within a longer word: `5` is not in `50`, and `ann@a.org` not in `joann@a.org`. */
function standsIn(words: string, text: string): boolean {
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + 1)) {
    if (!continues(text.charAt(at - 1), words.charAt(0)) && !continues(text.charAt(at + words.length), words.charAt(words.length - 1)))
      return true;
  }
  return false;
}

function continues(outside: string, inside: string): boolean {
  return WORD.test(outside) && WORD.test(inside);
}

/** `1,234.50`, `1.234,50` and `3,5` are written where different people live; what may be meant counts as said. */
function readingsOf(written: string): number[] {
  const english = Number(written.replaceAll(',', ''));
  const continental = Number(written.replaceAll('.', '').replace(',', '.'));
  return [english, continental].filter((value) => !Number.isNaN(value));
}
