import { IRREGULAR, STOP_WORDS, SYNONYMS } from './english.js';

const VOWEL = /[aeiouy]/;

/** Splits text and ids of any case style into lower-case words. */
export function wordsOf(text: string): string[] {
  return (
    text
      .replaceAll(/\be-mail/gi, 'email')
      .replaceAll(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2')
      .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

/** Cuts the endings that grammar adds, so that "cancelled" meets "cancel" and "orders" meets "order". */
export function stem(word: string): string {
  const lower = word.toLowerCase();
  const irregular = IRREGULAR.get(lower);
  if (irregular !== undefined) return irregular;
  if (lower.length < 4) return lower === 'ids' ? 'id' : lower;
  const singular = withoutPlural(lower);
  return IRREGULAR.get(singular) ?? evened(withoutEnding(singular));
}

function withoutPlural(word: string): string {
  if (word.endsWith('ies') && word.length > 4) return `${word.slice(0, -3)}y`;
  if (/(?:s|x|z|ch|sh)es$/.test(word)) return word.slice(0, -2);
  return /[^su]s$/.test(word) && !word.endsWith('is') ? word.slice(0, -1) : word;
}

const ENDINGS: readonly (readonly [ending: string, leastRest: number])[] = [
  ['ation', 5],
  ['ing', 3],
  ['ed', 3],
  ['ly', 4],
];

function withoutEnding(word: string): string {
  if (word.endsWith('eed')) return word;
  const [ending] = ENDINGS.find(([end, least]) => word.endsWith(end) && word.length - end.length >= least) ?? [''];
  const rest = word.slice(0, word.length - ending.length);
  return VOWEL.test(rest) ? rest : word;
}

/** Takes off what is left in one form and missing in another: a last e, "at" of "-ate", a doubled consonant. */
function evened(word: string): string {
  if (word.length < 4) return word;
  return word
    .replace(/e$/, '')
    .replace(/(?<=.{5})at$/, '')
    .replace(/(?<=.{2})([^aeiou])\1$/, '$1');
}

export function isStopWord(word: string): boolean {
  return STOP_WORDS.has(word.toLowerCase());
}

/** The stems of a text's words that carry meaning. */
export function stemsOf(text: string): string[] {
  return wordsOf(text)
    .filter((word) => !isStopWord(word))
    .map(stem);
}

type Synonyms = ReadonlyMap<string, ReadonlySet<string>>;

const ANY_SYNONYMS = byStem(SYNONYMS.all);
const ACTION_SYNONYMS = byStem(SYNONYMS.action);

function byStem(groups: readonly (readonly string[])[]): Synonyms {
  const found = new Map<string, Set<string>>();
  for (const group of groups) {
    const stems = group.map(stem);
    for (const one of stems) found.set(one, new Set([...(found.get(one) ?? []), ...stems]));
  }
  return found;
}

/** Whether two stems order the same thing to be done. */
export function areSameAction(one: string, other: string): boolean {
  return one === other || (ACTION_SYNONYMS.get(one)?.has(other) ?? false);
}

/** How well a set of stems knows a stem: 1 as it stands, 0.7 through a synonym, 0 not at all. */
export function knows(stems: ReadonlySet<string>, wanted: string): number {
  if (stems.has(wanted)) return 1;
  for (const synonym of ANY_SYNONYMS.get(wanted) ?? []) if (stems.has(synonym)) return 0.7;
  return 0;
}

/** An id's words as a person writes them: `getAverageSpend` → "get average spend". */
export function humanised(id: string): string {
  return wordsOf(id).join(' ');
}
