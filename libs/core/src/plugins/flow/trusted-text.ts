/** The words with authority in a run, in which addresses and ids are looked up. */
export class TrustedText {
  private readonly texts: readonly string[];
  private names: ReadonlySet<string> | undefined;

  constructor(texts: readonly string[]) {
    this.texts = texts.map((text) => text.normalize('NFC'));
  }

  /**
   * Tells whether the words contain a text, whole and letter by letter: the case of each letter of
   * an address could tell its host something.
   */
  has(text: string): boolean {
    return text !== '' && this.texts.some((words) => standsIn(text, words));
  }

  /** Returns the different names of some kind, letter by letter, such as the ids that there are. */
  wordsThat(isSuch: (word: string) => boolean): readonly string[] {
    this.names ??= new Set(this.texts.flatMap((text) => text.match(NAMES) ?? []));
    return [...this.names].filter(isSuch);
  }
}

/** The characters of a word: letters and digits of any script. */
const WORD = /[\p{L}\p{N}]/u;
/** The characters that join two words into one name: `a.b`, `a-b`, `a@b`, `a/b`. */
const JOINT = /[.\-_@/\\:+~=&%#']/;
/** Whole names: words, and words with joints between them, each as long as it can be. */
const NAMES = /[\p{L}\p{N}](?:[\p{L}\p{N}.\-_@/\\:+~=&%#']*[\p{L}\p{N}_])?/gu;

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
