import type { JsonValue } from '@toolloop/core';
import { answeringCalls } from './answering.calls.js';
import type { MadeCall } from './conversation.reader.js';
import { isJsonArray, isJsonObject, ownEntries } from './json.js';
import { entityOf } from './result.entities.js';
import type { Situation } from './situation.js';
import { nounOf } from './tool.profile.js';
import { listOf } from './value.phrasing.js';
import { stem, wordsOf } from './words.js';

/** Something the results say: what it is called, in stems, and its value. */
export interface Fact {
  readonly stems: ReadonlySet<string>;
  readonly value: JsonValue;
}

const DEEPEST = 6;
const MOST_ITEMS = 20;

/** What all results say, the newest first and those that answer the question before the rest. */
export function factsOf(situation: Situation): Fact[] {
  const answering = answeringCalls(situation).toReversed();
  const others = situation.conversation.calls.filter((call) => call.status === 'succeeded' && !answering.includes(call)).toReversed();
  return [...answering, ...others].flatMap((call) => factsOfCall(call, situation));
}

function factsOfCall({ name, value, args }: MadeCall, { profiles, entities }: Situation): Fact[] {
  const profile = profiles.get(name);
  const bound = profile && entityOf(profile, entities)?.data;
  const noun = stemsIn(nounOf(profile?.method ?? name));
  const owner = [...(profile?.ownerStems ?? [])];
  const list = listOf(value);
  return [
    { stems: new Set(noun.length > 0 ? noun : owner), value },
    ...factsIn(value, []),
    ...(bound ? factsIn(bound, owner) : []),
    ...factsIn(args, []),
    ...(list ? [{ stems: new Set(['count', 'total', 'number'].map(stem)), value: list.length }] : []),
  ];
}

/** What a value says by its keys; `path` are the stems of the keys that led to it. */
export function factsIn(value: JsonValue, path: readonly string[], depth = 0): Fact[] {
  if (depth > DEEPEST) return [];
  if (isJsonArray(value)) return value.slice(0, MOST_ITEMS).flatMap((item) => factsIn(item, path, depth + 1));
  if (!isJsonObject(value)) return [];
  return ownEntries(value).flatMap(([key, entry]) => {
    const stems = path.concat(stemsIn(key));
    const fact: Fact = { stems: new Set(stems), value: entry };
    return [fact].concat(factsIn(entry, stems.slice(-3), depth + 1));
  });
}

/** All stems of a name, stop words too: `to` and `from` are names here. */
export function stemsIn(name: string): string[] {
  return wordsOf(name).map(stem);
}

/** Facts whose name holds all words of the wanted one, or all of whose words it holds; the closest first. */
export function factsFor(name: readonly string[], facts: readonly Fact[]): Fact[] {
  const wanted = new Set(name);
  return facts
    .map((fact) => ({ fact, close: closeness(wanted, fact.stems) }))
    .filter(({ close }) => close > 0)
    .toSorted((one, other) => other.close - one.close)
    .map(({ fact }) => fact);
}

function closeness(wanted: ReadonlySet<string>, stems: ReadonlySet<string>): number {
  const shared = [...wanted].filter((word) => stems.has(word)).length;
  const contained = shared > 0 && (shared === wanted.size || shared === stems.size);
  return contained ? shared / new Set([...wanted, ...stems]).size : 0;
}
