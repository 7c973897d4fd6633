import type { JsonValue } from '@toolloop/core';
import type { MadeCall } from './conversation.reader.js';
import { isJsonArray, isJsonObject, ownEntries, plainText } from './json.js';
import { range, type Mention, type Question } from './question.reader.js';
import { orderStrength, strength, type ToolProfile } from './tool.profile.js';
import { knows, stem, stemsOf, wordsOf } from './words.js';

/** How far each word of the question is answered by the calls so far, from 0 to 1. */
export type Coverage = ReadonlyMap<string, number>;

/** From here on a word counts as answered. */
export const ANSWERED = 0.5;

/** What the calls of a question have answered; a word given as an order is answered by a tool alone, never by what a result says. */
export function coverageOf(
  question: Question,
  calls: readonly MadeCall[],
  profiles: ReadonlyMap<string, ToolProfile>,
  orders: ReadonlySet<string>,
): Coverage {
  const covered = new Map(question.words.map((word) => [word.stem, 0]));
  for (const call of calls.filter(({ status }) => status !== 'failed')) {
    const profile = profiles.get(call.name);
    const answered = answeredBy(call, profile);
    for (const [wanted, before] of covered) {
      const now = orders.has(wanted) ? (profile ? orderStrength(profile, wanted) : 0) : answered(wanted);
      covered.set(wanted, Math.max(before, now));
    }
  }
  for (const wanted of usedStems(question, calls)) covered.set(wanted, 1);
  return covered;
}

/** How well one call answers a word: its tool is meant by it, or its result speaks of it. An empty result answers nothing. */
export function answeredBy(call: MadeCall, profile: ToolProfile | undefined): (wanted: string) => number {
  if (isEmptyResult(call.value) && call.status === 'succeeded' && profile?.spec.effect === 'read_only') return () => 0;
  const inResult = answeredByResult(call);
  return (wanted) => Math.max(meant(call, profile, wanted), inResult(wanted));
}

/** How well a result alone answers a word: as a key, or less surely as a value. */
export function answeredByResult(call: MadeCall): (wanted: string) => number {
  const { keys, values } = wordsIn(call.value);
  return (wanted) => Math.max(knows(keys, wanted), values.has(wanted) ? 0.7 : 0);
}

/** How surely a word meant this call: its tool, or an argument that was given. */
export function meant({ args }: MadeCall, profile: ToolProfile | undefined, wanted: string): number {
  const given = new Set(Object.keys(args).flatMap(stemsOf));
  return Math.max(profile ? strength(profile, wanted) : 0, 0.9 * knows(given, wanted));
}

/** Whether a result holds nothing: an empty list or text, or a page of one. */
export function isEmptyResult(value: JsonValue): boolean {
  if (isJsonArray(value)) return value.length === 0;
  if (!isJsonObject(value)) return value === null || value === '';
  const entries = ownEntries(value).map(([, entry]) => entry);
  const lists = entries.filter(isJsonArray);
  const onlyCounts = entries.every(
    (entry) => isJsonArray(entry) || typeof entry === 'number' || typeof entry === 'boolean' || entry === null,
  );
  return entries.length === 0 || (onlyCounts && lists.length === 1 && lists.every((entry) => entry.length === 0));
}

const MOST_WORDS = 5000;
const LONGEST_STATE = 3;
const LONGEST_VALUE = 60;

/** The words of a result: its keys, and short values such as a status. Running text is data, it answers nothing. */
function wordsIn(value: JsonValue): { readonly keys: ReadonlySet<string>; readonly values: ReadonlySet<string> } {
  const keys = new Set<string>();
  const values = new Set<string>();
  const visit = (entry: JsonValue): void => {
    if (isJsonArray(entry)) entry.forEach(visit);
    else if (isJsonObject(entry)) {
      for (const [key, inner] of ownEntries(entry)) {
        for (const word of wordsOf(key)) keys.add(stem(word));
        visit(inner);
      }
    } else addState(values, plainText(entry));
  };
  visit(value);
  return { keys, values };
}

function addState(values: Set<string>, text: string): void {
  const words = text.length < LONGEST_VALUE ? wordsOf(text) : [];
  if (words.length <= LONGEST_STATE && values.size < MOST_WORDS) for (const word of words) values.add(stem(word));
}

/** Words that are part of a value the model has sent already, such as a name in lower case or an enum's word. */
export function usedStems({ tokens, mentions }: Question, calls: readonly MadeCall[]): string[] {
  const mentioned = new Set(usedMentions(mentions, calls).flatMap(({ first, last }) => range(first, last)));
  const sent = new Set(
    calls
      .flatMap(({ args }) => scalarsDeep(args))
      .filter((text) => text.length < LONGEST_VALUE)
      .flatMap(wordsOf),
  );
  return tokens.filter(({ lower }, index) => mentioned.has(index) || sent.has(lower)).flatMap(({ stems }) => stems);
}

/** The mentions whose value stands in the arguments of a call, or whose id stands in its tool's name. */
export function usedMentions(mentions: readonly Mention[], calls: readonly MadeCall[]): Mention[] {
  const sent = new Set(calls.flatMap(textsIn).map((text) => text.toLowerCase()));
  return mentions.filter(({ value, kind }) => {
    const lower = value.toLowerCase();
    const lastName = kind === 'name' || kind === 'phrase' ? lower.split(' ').at(-1) : undefined;
    return sent.has(lower) || (lastName !== undefined && sent.has(lastName));
  });
}

function textsIn({ args, name }: MadeCall): string[] {
  return scalarsDeep(args).concat(name.split('_'));
}

function scalarsDeep(value: JsonValue): string[] {
  if (isJsonArray(value)) return value.flatMap(scalarsDeep);
  return isJsonObject(value) ? Object.values(value).flatMap(scalarsDeep) : [plainText(value)];
}

/** The words that still want an answer. */
export function openWords({ words }: Question, coverage: Coverage): string[] {
  const open = words.filter((word) => !word.weak && (coverage.get(word.stem) ?? 0) < ANSWERED);
  return [...new Set(open.map((word) => word.stem))];
}
