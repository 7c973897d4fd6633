import type { JsonObject, JsonValue, Message } from '@toolloop/core';
import type { ModelRequest, ToolCall, ToolMessage } from '@toolloop/protocol';
import { canonicalJson, isJsonArray, isJsonObject, isScalar, parseJson } from './json-schema.js';
import { stem, wordsOf } from './words.js';

/** A call this model made. `open` has no result yet; to `denied` a person said no, or nobody said yes. */
export interface MadeCall {
  readonly name: string;
  readonly args: JsonObject;
  readonly status: 'succeeded' | 'failed' | 'denied' | 'open';
  /** The result as JSON; plain text is a JSON string. */
  readonly value: JsonValue;
  /** The promise of a call that only asked for something to happen later. */
  readonly promise?: string | undefined;
}

/** The question at hand, and the calls made for it. */
export interface Conversation {
  readonly question: string;
  /** Earlier questions of the user, newest first. */
  readonly earlierQuestions: readonly string[];
  /** Calls made for the question, oldest first, and those made before it was asked. */
  readonly calls: readonly MadeCall[];
  readonly earlierCalls: readonly MadeCall[];
  readonly usedCallIds: ReadonlySet<string>;
}

/** Questions and calls further back resolve no pronoun, and reading them would make every answer slower than the one before. */
const MOST_EARLIER = 8;
const CORRECTION = /\b(?:json|schema|valid\w*|invalid|does not (?:match|satisfy|conform))\b/i;

export function readConversation({ messages, answerFormat }: ModelRequest): Conversation {
  const users = messages.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  const asked = users.filter((index, nth) => !answerFormat || nth === 0 || !isCorrection(messages, index));
  const end = asked.at(-1) ?? -1;
  let start = Math.max(end, 0);
  while (messages[start - 1]?.role === 'user') start -= 1;
  const results = new Map(messages.flatMap((message) => (message.role === 'tool' ? [[message.toolCallId, message]] : [])));
  const calls = (part: readonly Message[]): MadeCall[] => part.flatMap(callsOf).map((call) => madeCall(call, results.get(call.toolCallId)));
  const question = messages.slice(start, end + 1).map(textOf);
  const earlier = asked.filter((index) => index < start).slice(-MOST_EARLIER);
  return {
    question: question.join('\n'),
    earlierQuestions: earlier.toReversed().map((index) => textOf(messages[index])),
    calls: calls(messages.slice(end + 1)),
    earlierCalls: calls(messages.slice(0, start)).slice(-MOST_EARLIER),
    usedCallIds: new Set(messages.flatMap(callsOf).map(({ toolCallId }) => toolCallId)),
  };
}

/** Tells whether a message complains about the JSON answer before it, which makes it no question of its own. */
function isCorrection(messages: readonly Message[], index: number): boolean {
  const before = messages[index - 1];
  const isAnswered = before?.role === 'assistant' && callsOf(before).length === 0 && isJsonObject(parseJson(before.content));
  return isAnswered && CORRECTION.test(textOf(messages[index]));
}

function callsOf(message: Message): readonly ToolCall[] {
  return message.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

function textOf(message: Message | undefined): string {
  const content = message?.content ?? '';
  return typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function madeCall({ name, arguments: text }: ToolCall, result: ToolMessage | undefined): MadeCall {
  const args = parseJson(text);
  const call = { name, args: isJsonObject(args) ? args : {} };
  if (!result) return { ...call, status: 'open', value: null };
  const content = textOf(result);
  const parsed = parseJson(content);
  const value = parsed === undefined ? content : parsed;
  if (result.isError === true || isError(value))
    return { ...call, value, status: fieldOf(errorIn(value), 'code') === 'approval_denied' ? 'denied' : 'failed' };
  const inner = fieldOf(value, 'ok') === true ? fieldOf(value, 'result') : undefined;
  return { ...call, status: 'succeeded', value: inner === undefined ? value : inner, promise: promiseIn(value) };
}

/** Tells whether a result says that its call came to nothing: `{ errors: […] }`, alone or in the envelope `{ ok: false, … }`. */
function isError(value: JsonValue): boolean {
  return isJsonObject(value) && (value['ok'] === false || (isJsonArray(value['errors']) && Object.keys(value).length === 1));
}

function promiseIn(value: JsonValue): string | undefined {
  const [type, promise] = [fieldOf(value, 'type'), fieldOf(value, 'human_readable')];
  return typeof type === 'string' && type.endsWith('.requested') && typeof promise === 'string' ? promise : undefined;
}

function fieldOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  return isJsonObject(value) ? value[key] : undefined;
}

function errorIn(value: JsonValue): JsonValue | undefined {
  const errors = fieldOf(value, 'errors');
  return isJsonArray(errors) ? errors[0] : (fieldOf(value, 'error') ?? value);
}

/** Why a call came to nothing, in the words of its result. */
export function reasonOf({ value }: MadeCall): string {
  const error = errorIn(value);
  const texts = [error, fieldOf(error, 'detail'), fieldOf(error, 'message'), fieldOf(error, 'title'), fieldOf(value, 'human_readable')];
  return texts.find((text) => typeof text === 'string') ?? 'it failed without saying why';
}

/** The identity of a call: the tool and its canonical arguments. */
export function callKey({ name, args }: Pick<MadeCall, 'name' | 'args'>): string {
  return `${name} ${canonicalJson(args)}`;
}

/** An object found in a result: a thing the conversation can speak of. */
export interface Entity {
  readonly data: JsonObject;
  readonly call: MadeCall;
  /** Order of appearance. */
  readonly index: number;
  /** The values under `id` and keys like it, the plain `id` first. */
  readonly ids: readonly string[];
  readonly fields: readonly { readonly key: string; readonly stems: readonly string[]; readonly value: string | number | boolean }[];
  /** The fields' values in lower case, and their words. */
  readonly texts: ReadonlySet<string>;
  readonly words: ReadonlySet<string>;
}

/** The objects in the results, outer ones before inner ones. */
export function entitiesIn(calls: readonly MadeCall[]): Entity[] {
  const succeeded = calls.filter(({ status }) => status === 'succeeded');
  const found = succeeded.flatMap((call) => objectsIn(call.value).map((data) => ({ data, call })));
  return found.map(({ data, call }, index) => {
    const fields = scalarsOf(data).map(([key, value]) => ({ key, value, stems: wordsOf(key).map(stem) }));
    const texts = fields.map(({ value }) => String(value).toLowerCase());
    return { data, call, index, fields, ids: idsOf(data), texts: new Set(texts), words: new Set(texts.flatMap(wordsOf)) };
  });
}

function objectsIn(value: JsonValue): JsonObject[] {
  if (isJsonArray(value)) return value.flatMap(objectsIn);
  return isJsonObject(value) ? [value, ...ownEntries(value).flatMap(([, entry]) => objectsIn(entry))] : [];
}

/** An object's properties without the framework's own, which begin with an underscore. */
export function ownEntries(value: JsonObject): [string, JsonValue][] {
  return Object.entries(value).filter(([key]) => !key.startsWith('_'));
}

function scalarsOf(data: JsonObject): [string, string | number | boolean][] {
  return ownEntries(data).flatMap(([key, value]) => (isScalar(value) ? [[key, value]] : []));
}

const ID_KEYS = new Set(['id', 'key', 'code', 'sku', 'number', 'no', 'ref', 'reference', 'uuid', 'isbn', 'slug', 'handle']);

export function isIdKey(key: string): boolean {
  return ID_KEYS.has(wordsOf(key).at(-1) ?? '');
}

export function idsOf(data: JsonObject): string[] {
  const ids = scalarsOf(data).filter(([key]) => isIdKey(key));
  return ids.toSorted(([one], [other]) => Number(other === 'id') - Number(one === 'id')).map(([, value]) => String(value));
}

/** The name of an object; undefined when it has none. */
export function labelOf(data: JsonObject): string | undefined {
  const texts = ['name', 'fullName', 'displayName', 'title', 'label', 'subject'].map((key) => data[key]);
  const parts = [data['firstName'], data['lastName']].filter((part) => typeof part === 'string');
  return texts.find((text): text is string => typeof text === 'string' && text !== '') ?? (parts.join(' ') || undefined);
}

/** The list a result is about: itself, or the one list of a page. */
export function listOf(value: JsonValue): readonly JsonValue[] | undefined {
  if (!isJsonObject(value)) return isJsonArray(value) ? value : undefined;
  const entries = ownEntries(value).map(([, entry]) => entry);
  const lists = entries.filter(isJsonArray);
  return lists.length === 1 && entries.every((entry) => typeof entry !== 'string' && !isJsonObject(entry)) ? lists[0] : undefined;
}

/** Tells whether a result holds nothing: an empty list or text, or a page of one. */
export function isEmptyResult(value: JsonValue): boolean {
  const length = listOf(value)?.length ?? (isJsonObject(value) ? ownEntries(value).length : undefined);
  return length === 0 || value === null || value === '';
}
