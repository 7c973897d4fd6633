import { createRequire } from 'node:module';
import { TokenCounter } from '@toolloop/protocol';
import type * as Encoding from 'gpt-tokenizer/encoding/o200k_base';

/** The time a tokenizer takes grows with the square of a word, and a stranger may send a very long one. A border more makes a token more at most. */
const PIECE_CHARACTERS = 1_000;

/** Of a text with more pieces than this, as many are counted, and the rest is taken to be like them: counting must not stop the process. */
const MOST_PIECES = 100;

/** What looks like a control token in a message is text. */
const AS_TEXT = { disallowedSpecial: new Set<string>() };

/**
 * Counts tokens as OpenAI's models do, for `tokenBudget` and `summarised`. For the models of others it is an estimate, and so it is for texts of more
 * than 100,000 characters. The vocabulary is loaded by the first `count`.
 */
export class OpenAiTokenCounter extends TokenCounter {
  private tokenizer: Tokenizer | undefined;

  /** @param encoding 'o200k_base' by default, which every current model has */
  constructor(private readonly encoding: OpenAiEncoding = 'o200k_base') {
    super();
  }

  override count(text: string): number {
    this.tokenizer ??= loadTokenizer(this.encoding);
    const stride = PIECE_CHARACTERS * Math.max(1, Math.ceil(text.length / PIECE_CHARACTERS / MOST_PIECES));
    let [tokens, counted] = [0, 0];
    for (let at = 0; at < text.length; at += stride) {
      const piece = text.slice(at, at + PIECE_CHARACTERS);
      tokens += this.tokenizer.countTokens(piece, AS_TEXT);
      counted += piece.length;
    }
    return counted === text.length ? tokens : Math.ceil((tokens * text.length) / counted);
  }
}

/** The vocabularies of OpenAI's models: `o200k_base` since gpt-4o, `cl100k_base` before. */
export type OpenAiEncoding = 'o200k_base' | 'cl100k_base';

export type Tokenizer = Pick<typeof Encoding, 'countTokens'>;

const require = createRequire(import.meta.url);

/** Loads a vocabulary, which takes some 150 ms and 80 MB: only where tokens are counted, and at once, since counting waits for nobody. */
export function loadTokenizer(encoding: OpenAiEncoding): Tokenizer {
  const { countTokens, setMergeCacheSize } = require(`gpt-tokenizer/encoding/${encoding}`) as typeof Encoding;
  // A large cache is slower than a small one as soon as it is full, as after some base64, in which no word comes twice.
  setMergeCacheSize(1_000);
  return { countTokens };
}
