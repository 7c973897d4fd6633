/**
 * Phrases that make a reader guess who does what. Say the subject and the verb: "the caller", "no
 * one else", "continues".
 */
const RIDDLES =
  /\bwhoever\b|\bnobody\b|\b(goes|went|going|go) on\b|\bwhat [\w\s]{1,40}? (comes|came|come) to\b/gi;

export function riddlesIn(text: string): readonly string[] {
  return text.match(RIDDLES) ?? [];
}
