import { createRequire } from 'node:module';
import { TokenCounter } from '@toolloop/protocol';
import type * as Encoding from 'gpt-tokenizer/encoding/o200k_base';

/**
 * Counts tokens as OpenAI's models do, for `tokenBudget` and `summarised`. The count is an estimate
 * for other providers' models, and for texts of more than 100,000 characters. The first `count`
 * loads the vocabulary.
 *
 * @example
 * history: tokenBudget({ tokens: 100_000, counter: new OpenAiTokenCounter() })
 */
export class OpenAiTokenCounter extends TokenCounter {
  private tokenizer: Tokenizer | undefined;

  /**
   * @param encoding the vocabulary; every current model has the default
   * @throws Error where `gpt-tokenizer` is not installed
   */
  constructor(private readonly encoding: OpenAiEncoding = 'o200k_base') {
    super();
    if (!isInstalled(encoding))
      throw new Error(
        'OpenAiTokenCounter needs the package gpt-tokenizer, which is not installed. Run: npm install gpt-tokenizer',
      );
  }

  override count(text: string): number {
    this.tokenizer ??= loadTokenizer(this.encoding);
    const stride =
      PIECE_CHARACTERS * Math.max(1, Math.ceil(text.length / PIECE_CHARACTERS / MOST_PIECES));
    let [tokens, counted] = [0, 0];
    for (let at = 0; at < text.length; at += stride) {
      const piece = text.slice(at, at + PIECE_CHARACTERS);
      tokens += this.tokenizer.countTokens(piece, AS_TEXT);
      counted += piece.length;
    }
    return counted === text.length ? tokens : Math.ceil((tokens * text.length) / counted);
  }
}

/**
 * The longest piece that is counted at once. A tokenizer's time grows with the square of a word's
 * length, and anyone may send a very long word. Each border between pieces adds one token at most.
 */
const PIECE_CHARACTERS = 1_000;

/**
 * The most pieces of a text that are counted; the count is extrapolated to the rest, so that a long
 * text does not block the process.
 */
const MOST_PIECES = 100;

/** Counts control tokens in a message as plain text. */
const AS_TEXT = { disallowedSpecial: new Set<string>() };

/** The vocabularies of OpenAI's models: `o200k_base` since gpt-4o, `cl100k_base` before. */
export type OpenAiEncoding = 'o200k_base' | 'cl100k_base';

export type Tokenizer = Pick<typeof Encoding, 'countTokens'>;

const require = createRequire(import.meta.url);

function isInstalled(encoding: OpenAiEncoding): boolean {
  try {
    return require.resolve(`gpt-tokenizer/encoding/${encoding}`) !== '';
  } catch {
    return false;
  }
}

/**
 * Loads a vocabulary, which takes some 150 ms and 80 MB: only when tokens are counted, and
 * synchronously, as `count` is.
 */
export function loadTokenizer(encoding: OpenAiEncoding): Tokenizer {
  const { countTokens, setMergeCacheSize } = require(
    `gpt-tokenizer/encoding/${encoding}`,
  ) as typeof Encoding;
  // A large cache is slower than a small one as soon as it is full, as after some base64, in which
  // no word comes twice.
  setMergeCacheSize(1_000);
  return { countTokens };
}
