const MARKS = /\p{M}/gu;
/** `recentOrders` and `HTTPServer`: between a small letter or a digit and a capital, and before the last capital of a row. */
const CASE_CHANGE = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const WORD = /[\p{L}\p{N}]+/gu;
/** They say nothing of what a tool does, and few tools are too few to see it by how often they stand. */
const EMPTY_WORDS = new Set(
  'a an and any are as at be by can do does for from has have how i in is it its me my of on or our that the their there these this to was what when which who with you your'.split(
    ' ',
  ),
);

/** The words of an id or a text, as they are compared: `getRecentOrders`, `recent_orders` and `Recent orders` share two. */
export function searchWords(text: string): string[] {
  const plain = text.normalize('NFKD').replaceAll(MARKS, '').replaceAll(CASE_CHANGE, ' ');
  const words = plain.toLowerCase().match(WORD) ?? [];
  return words.filter((word) => !EMPTY_WORDS.has(word)).map(singular);
}

/** English plurals, roughly: both sides are treated alike, so what it makes need not be a word. */
function singular(word: string): string {
  if (word.length < 4 || !word.endsWith('s') || /(?:ss|us|is)$/.test(word)) return word;
  if (word.endsWith('ies')) return `${word.slice(0, -3)}y`;
  return /(?:s|x|z|ch|sh)es$/.test(word) ? word.slice(0, -2) : word.slice(0, -1);
}
