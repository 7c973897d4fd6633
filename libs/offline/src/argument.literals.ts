import type { JsonValue } from '@toolloop/core';
import type { Leaf } from './argument.leaves.js';
import { NEGATIONS } from './english.js';
import { isJson, plainText } from './json.js';
import { range, type Question } from './question.reader.js';
import { accepts } from './schema.check.js';
import { isStopWord, stem, wordsOf } from './words.js';

/** A value the schema itself names, found in the user's words. */
export interface Literal {
  readonly value: JsonValue;
  readonly fit: number;
  readonly tokens: readonly number[];
}

interface Word {
  readonly word: string;
  readonly stem: string;
  readonly token: number;
}

export function literalCandidates(leaf: Leaf, question: Question): Literal[] {
  if (leaf.schema.enum) return enumLiterals(leaf, question);
  return leaf.type === 'boolean' ? booleanLiterals(leaf, question) : [];
}

/** The user's words one by one, quoted ones too. */
function spoken({ tokens }: Question): Word[] {
  return tokens.flatMap(({ kind, value }, token) =>
    kind === 'punctuation' ? [] : wordsOf(value).map((word) => ({ word, stem: stem(word), token })),
  );
}

function enumLiterals({ schema, root }: Leaf, question: Question): Literal[] {
  const words = spoken(question);
  return (schema.enum ?? []).flatMap((value: unknown) => {
    if (!isJson(value) || value === null || !accepts(schema, value, root)) return [];
    return literalsOf(value, words);
  });
}

/** Where all words of a value stand one after the other; "cancel" is less surely "cancelled" than the word itself is. */
function literalsOf(value: JsonValue, words: readonly Word[]): Literal[] {
  const wanted = wordsOf(plainText(value)).map((word) => ({ word, stem: stem(word) }));
  if (wanted.length === 0) return [];
  return words.flatMap((_, start): Literal[] => {
    const run = words.slice(start, start + wanted.length);
    const alike = run.length === wanted.length && wanted.every((one, offset) => run[offset]?.stem === one.stem);
    if (!alike) return [];
    const exact = wanted.every(({ word }, offset) => withoutS(run[offset]?.word ?? '') === withoutS(word));
    return [
      { value, tokens: range(run[0]?.token ?? 0, run.at(-1)?.token ?? 0), fit: exact ? literalFit(wanted.map(({ word }) => word)) : 0.6 },
    ];
  });
}

function withoutS(word: string): string {
  return word.replace(/s$/, '');
}

/** A long value is surer than a short one, and "on" or "all" are surer to be grammar than a value. */
function literalFit(words: readonly string[]): number {
  return words.every(isStopWord) ? 0.8 : 1 + 0.5 * words.length;
}

const FILLERS = new Set('include includes is has have with only should show allow enable enabled use want'.split(' '));
const SWITCHES = new Set(['on', 'enabled', 'enable', 'active', 'power', 'powered', 'state', 'activated']);
const OFF = new Set(['off', 'disable', 'deactivate', 'false', 'disabled']);
const SWITCHED_ON = /\b(?:turn|switch|put|set|power|leave|keep)\b.*\bon\b|\b(?:enable|activate)\b/i;

function booleanLiterals({ path }: Leaf, question: Question): Literal[] {
  const words = spoken(question);
  const all = wordsOf(path.at(-1) ?? '');
  const wanted = all.filter((word) => !FILLERS.has(word) && !isStopWord(word)).map(stem);
  if (all.some((word) => SWITCHES.has(word))) return switchLiterals(words, question.text);
  const places = wanted.map((one) => words.find((word) => word.stem === one)?.token);
  if (wanted.length === 0 || places.includes(undefined)) return [];
  const tokens = places.filter((place) => place !== undefined);
  return [{ value: !isDenied(Math.min(...tokens), question), tokens, fit: 1.5 }];
}

function switchLiterals(words: readonly Word[], text: string): Literal[] {
  const off = words.find(({ word }) => OFF.has(word));
  if (off) return [{ value: false, tokens: [off.token], fit: 1.5 }];
  const on = SWITCHED_ON.test(text) ? words.findLast(({ word }) => ['on', 'enable', 'activate'].includes(word)) : undefined;
  return on ? [{ value: true, tokens: [on.token], fit: 1.5 }] : [];
}

function isDenied(token: number, { tokens }: Question): boolean {
  return [tokens[token - 1], tokens[token - 2]].some((before) => before !== undefined && NEGATIONS.has(before.lower));
}
