/** How long the provider keeps what it has read, from its last use; false for not at all. */
export type PromptCache = '5m' | '1h' | false;

/** Blocks with a mark in the last of them: the provider keeps all that stands up to there. */
export function marked(blocks: string, cache: PromptCache): string {
  if (cache === false) return blocks;
  return `${blocks.slice(0, -1)},"cache_control":{"type":"ephemeral"${cache === '1h' ? ',"ttl":"1h"' : ''}}}`;
}
