/**
 * The words of a text, without case and accents: those of "Zoë Kamiński" are "zoe" and "kaminski".
 */
export function wordsOf(text: string): readonly string[] {
  const plain = text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  return plain.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');
}
