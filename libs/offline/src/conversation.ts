import type { JsonObject, JsonValue, Message, ModelRequest, ToolCall, ToolMessage } from '@toolloop/core';
import { canonicalJson, isJsonArray, isJsonObject, isScalar, parseJson } from './json-schema.js';
import { stem, wordsOf } from './words.js';

/** A call this model made. `open` has no result yet; to `denied` a person said no, or nobody said yes. */
export interface MadeCall {
  readonly toolCallId: string;
  readonly name: string;
  readonly args: JsonObject;
  readonly status: 'succeeded' | 'failed' | 'denied' | 'open';
  /** The result as JSON; plain text is a JSON string. */
  readonly value: JsonValue;
  /** What a call said that only asked for something to happen later. */
  readonly promise?: string | undefined;
}

/** What a transcript says about the question at hand. */
export interface Conversation {
  readonly question: string;
  /** What the user wrote before the question, newest first; the last eight. */
  readonly earlierQuestions: readonly string[];
  /** Calls made for the question, oldest first. */
  readonly calls: readonly MadeCall[];
  /** Calls made before the question was asked, oldest first; the last eight. */
  readonly earlierCalls: readonly MadeCall[];
  readonly usedCallIds: ReadonlySet<string>;
}

/** What lies further back resolves no pronoun, and reading it would make every answer slower than the one before. */
const MOST_EARLIER = 8;
const CORRECTION = /\b(?:json|schema|valid\w*|invalid|does not (?:match|satisfy|conform))\b/i;

export function readConversation({ messages, answerFormat }: ModelRequest): Conversation {
  const users = messages.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  const asked = answerFormat ? withoutCorrections(users, messages) : users;
  const end = asked.at(-1) ?? -1;
  let start = Math.max(end, 0);
  while (messages[start - 1]?.role === 'user') start -= 1;
  const results = new Map(messages.flatMap((message) => (message.role === 'tool' ? [[message.toolCallId, message]] : [])));
  const callsIn = (part: readonly Message[]): MadeCall[] =>
    part.flatMap(toolCallsOf).map((call) => madeCall(call, results.get(call.toolCallId)));
  return {
    question: messages
      .slice(start, end + 1)
      .map(textOf)
      .join('\n'),
    earlierQuestions: asked
      .filter((index) => index < start)
      .slice(-MOST_EARLIER)
      .toReversed()
      .map((index) => textOf(messages[index])),
    calls: callsIn(messages.slice(end + 1)),
    earlierCalls: callsIn(messages.slice(0, start)).slice(-MOST_EARLIER),
    usedCallIds: new Set(messages.flatMap(toolCallsOf).map(({ toolCallId }) => toolCallId)),
  };
}

/** Leaves out complaints about a JSON answer; the question is then the one before that answer. */
function withoutCorrections(users: readonly number[], messages: readonly Message[]): readonly number[] {
  const last = users.at(-1) ?? 0;
  const before = messages[last - 1];
  const answered = before?.role === 'assistant' && toolCallsOf(before).length === 0 && isJsonObject(parseJson(before.content));
  const isCorrection = users.length > 1 && answered && CORRECTION.test(textOf(messages[last]));
  return isCorrection ? withoutCorrections(users.slice(0, -1), messages) : users;
}

function toolCallsOf(message: Message): readonly ToolCall[] {
  return message.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

export function textOf(message: Message | undefined): string {
  const content = message?.content ?? '';
  return typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function madeCall({ toolCallId, name, arguments: text }: ToolCall, result: ToolMessage | undefined): MadeCall {
  const args = parseJson(text);
  const call = { toolCallId, name, args: isJsonObject(args) ? args : {} };
  if (!result) return { ...call, status: 'open', value: null };
  const content = textOf(result);
  const value = parseJson(content) ?? content;
  const envelope = isJsonObject(value) ? value : {};
  const failed = envelope['ok'] === false || (isJsonArray(envelope['errors']) && Object.keys(envelope).length === 1);
  if (result.isError === true || failed)
    return { ...call, status: codeOf(value) === 'approval_denied' ? 'denied' : 'failed', value: value };
  if (envelope['ok'] !== true || !('result' in envelope)) return { ...call, status: 'succeeded', value, promise: promiseIn(envelope) };
  return { ...call, status: 'succeeded', value: envelope['result'] ?? null, promise: promiseIn(envelope) };
}

/** What an envelope says of something yet to happen: `order.refund.requested`. */
function promiseIn({ type, human_readable: promise }: JsonObject): string | undefined {
  return typeof type === 'string' && type.endsWith('.requested') && typeof promise === 'string' ? promise : undefined;
}

function errorIn(value: JsonValue): JsonValue | undefined {
  if (!isJsonObject(value)) return value;
  return isJsonArray(value['errors']) ? value['errors'][0] : (value['error'] ?? value);
}

function codeOf(value: JsonValue): JsonValue | undefined {
  const error = errorIn(value);
  return isJsonObject(error) ? error['code'] : undefined;
}

/** Why a call came to nothing, in the words of its result. */
export function reasonOf({ value }: MadeCall): string {
  const error = errorIn(value);
  if (typeof error === 'string') return error;
  const texts = isJsonObject(error)
    ? [error['detail'], error['message'], error['title'], isJsonObject(value) && value['human_readable']]
    : [];
  return texts.find((text) => typeof text === 'string') ?? 'it failed without saying why';
}

/** What makes two calls the same: the tool and its canonical arguments. */
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
  readonly fields: readonly EntityField[];
  /** The fields' values in lower case, and their words. */
  readonly texts: ReadonlySet<string>;
  readonly words: ReadonlySet<string>;
}

/** One of an object's own texts and numbers. */
export interface EntityField {
  readonly key: string;
  readonly stems: readonly string[];
  readonly value: string | number | boolean;
}

const MOST_ENTITIES = 2000;
const DEEPEST = 4;

/** The newest objects in the results, outer ones before inner ones. */
export function entitiesIn(calls: readonly MadeCall[]): Entity[] {
  const succeeded = calls.filter(({ status }) => status === 'succeeded');
  const found = succeeded.flatMap((call) => objectsIn(call.value, 0).map((data) => ({ data, call }))).slice(-MOST_ENTITIES);
  return found.map(({ data, call }, index) => {
    const fields = scalarsOf(data).map(([key, value]) => ({ key, value, stems: wordsOf(key).map(stem) }));
    const texts = fields.map(({ value }) => String(value).toLowerCase());
    return { data, call, index, fields, ids: idsOf(data), texts: new Set(texts), words: new Set(texts.flatMap(wordsOf)) };
  });
}

function objectsIn(value: JsonValue, depth: number): JsonObject[] {
  if (depth > DEEPEST) return [];
  if (isJsonArray(value)) return value.flatMap((item) => objectsIn(item, depth + 1));
  return isJsonObject(value) ? [value, ...ownEntries(value).flatMap(([, entry]) => objectsIn(entry, depth + 1))] : [];
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

const LABEL_KEYS = ['name', 'fullname', 'displayname', 'title', 'label', 'subject', 'headline'];

/** What people call an object; undefined when it has no name. */
export function labelOf(data: JsonObject): string | undefined {
  const byKey = new Map(scalarsOf(data).map(([key, value]) => [key.toLowerCase().replaceAll(/[^a-z]/g, ''), value]));
  const texts = (keys: readonly string[]): string[] =>
    keys.map((key) => byKey.get(key)).filter((value): value is string => typeof value === 'string' && value !== '');
  return texts(LABEL_KEYS)[0] ?? (texts(['firstname', 'lastname']).join(' ') || undefined);
}

/** The list a result is about: itself, or the one list of a page. */
export function listOf(value: JsonValue): readonly JsonValue[] | undefined {
  if (!isJsonObject(value)) return isJsonArray(value) ? value : undefined;
  const entries = ownEntries(value).map(([, entry]) => entry);
  const lists = entries.filter(isJsonArray);
  const isPage = entries.every((entry) => isJsonArray(entry) || entry === null || typeof entry === 'number' || typeof entry === 'boolean');
  return isPage && lists.length === 1 ? lists[0] : undefined;
}

/** Whether a result holds nothing: an empty list or text, or a page of one. */
export function isEmptyResult(value: JsonValue): boolean {
  const list = listOf(value);
  return list ? list.length === 0 : value === null || value === '' || (isJsonObject(value) && ownEntries(value).length === 0);
}
