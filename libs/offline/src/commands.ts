import { isValue, type Question } from './question.reader.js';
import { isReadOnly, type ToolProfile } from './tool.profile.js';
import { NEGATIONS } from './english.js';
import { areSameAction, isStopWord } from './words.js';

const POLITE = new Set(['now', 'then', 'just', 'also', 'kindly', "let's", 'lets']);
const MODALS = new Set(['can', 'could', 'will', 'would', 'please', 'must', 'should']);
const WISHES = new Set(['want', 'like', 'need', 'love', 'wish', 'going', 'have', 'try', 'you', 'him', 'her', 'them']);
const OBJECTS = new Set([
  'the',
  'a',
  'an',
  'it',
  'this',
  'that',
  'them',
  'him',
  'her',
  'his',
  'their',
  'my',
  'our',
  'all',
  'every',
  'me',
  'to',
  'for',
]);

/** Indexes of the words the user gives as an order: "cancel it", "please cancel", "I want to cancel"; not "was it cancelled?". */
export function commandedTokens({ tokens, mentions, text }: Question, known: (stem: string) => boolean): number[] {
  const valued = new Set(mentions.filter(isValue).map(({ first }) => first));
  const lower = (index: number): string => tokens[index]?.lower ?? '';
  const isObject = (index: number): boolean =>
    index >= tokens.length ||
    OBJECTS.has(lower(index)) ||
    valued.has(index) ||
    /\W/.test(lower(index)) ||
    (tokens[index]?.stems.some(known) ?? false);
  const negated = (index: number): boolean =>
    [index - 1, index - 2].some((before) => NEGATIONS.has(lower(before)) || lower(before).endsWith("n't"));
  const place = (index: number): Place => ({
    before: lower(index - 1),
    earlier: lower(index - 2),
    opens: tokens[index]?.opensSentence ?? false,
  });
  const asks = (index: number): boolean => sentenceIsQuestion(text, tokens[index]?.start ?? 0);
  return tokens.flatMap((token, index) => {
    if (token.kind !== 'word' || isStopWord(token.lower) || negated(index)) return [];
    return isOrder(place(index), asks(index), isObject(index + 1)) ? [index] : [];
  });
}

interface Place {
  readonly before: string;
  readonly earlier: string;
  readonly opens: boolean;
}

function isOrder({ before, earlier, opens }: Place, asks: boolean, hasObject: boolean): boolean {
  if (before === 'you') return MODALS.has(earlier);
  if (before === 'please') return true;
  if (before === 'me') return earlier === 'help';
  if (asks) return false;
  if (before === 'to') return WISHES.has(earlier);
  return opens || POLITE.has(before) || (hasObject && (before === 'and' || before === ','));
}

function sentenceIsQuestion(text: string, start: number): boolean {
  const end = text.slice(start).search(/[.!?](?:\s|$)/);
  return end >= 0 && text[start + end] === '?';
}

/** The orders among the user's words that are this tool's verbs. */
export function commandsFor(profile: ToolProfile, stems: ReadonlySet<string>): boolean {
  return [...profile.verbs].some((verb) => [...stems].some((said) => areSameAction(said, verb)));
}

/** Whether the user's words permit this tool: reading always, everything else only when ordered. */
export function isPermitted(profile: ToolProfile, commanded: ReadonlySet<string>): boolean {
  return isReadOnly(profile) || commandsFor(profile, commanded);
}
