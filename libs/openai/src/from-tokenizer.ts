import { createRequire } from 'node:module';
import type * as Encoding from 'gpt-tokenizer/encoding/o200k_base';

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
