import type { JsonObject, JsonValue, Message } from '@toolloop/core';
import type { ContentPart, ModelRequest, ToolCall, ToolMessage } from '@toolloop/protocol';
import { denialIn, isErrorDocument } from './error.document.js';
import { canonicalJson, isJsonObject, parseJson } from './json.js';

/** A call this model made, and what became of it. `open` has no result yet; to `denied` a person said no, or nobody said yes. */
export interface MadeCall {
  readonly toolCallId: string;
  readonly name: string;
  readonly args: JsonObject;
  readonly status: 'succeeded' | 'failed' | 'denied' | 'open';
  /** The result as JSON; plain text is a JSON string. Of a denied call why it was not made. */
  readonly value: JsonValue;
  /** Said where the call only asked for something that happens later. */
  readonly promise: string | undefined;
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
  const users = messages.flatMap((message, index) => (message.role === 'user' ? [index] : []));
  const asked = answerFormat ? withoutCorrections(users, messages) : users;
  const end = asked.at(-1) ?? -1;
  let start = end;
  while (messages[start - 1]?.role === 'user') start -= 1;
  const results = resultsById(messages);
  return {
    question: messages
      .slice(Math.max(start, 0), end + 1)
      .map(textOf)
      .join('\n'),
    earlierQuestions: asked
      .filter((index) => index < start)
      .slice(-MOST_EARLIER)
      .toReversed()
      .map((index) => textOf(messages[index])),
    calls: callsIn(messages.slice(end + 1), results),
    earlierCalls: callsIn(messages.slice(0, Math.max(start, 0)), results).slice(-MOST_EARLIER),
    usedCallIds: new Set(messages.flatMap(toolCallsOf).map(({ toolCallId }) => toolCallId)),
  };
}

function withoutCorrections(users: readonly number[], messages: readonly Message[]): readonly number[] {
  const last = users.at(-1);
  return last !== undefined && users.length > 1 && isCorrection(messages, last) ? withoutCorrections(users.slice(0, -1), messages) : users;
}

/** A complaint about the JSON answer right before it; the question is then the one before that answer. */
function isCorrection(messages: readonly Message[], index: number): boolean {
  const before = messages[index - 1];
  const answered = before?.role === 'assistant' && toolCallsOf(before).length === 0 && isJsonObject(parseJson(before.content));
  return answered && CORRECTION.test(textOf(messages[index]));
}

function resultsById(messages: readonly Message[]): Map<string, ToolMessage> {
  return new Map(messages.flatMap((message) => (message.role === 'tool' ? [[message.toolCallId, message]] : [])));
}

function toolCallsOf(message: Message): readonly ToolCall[] {
  return message.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

function callsIn(messages: readonly Message[], results: ReadonlyMap<string, ToolMessage>): MadeCall[] {
  return messages.flatMap(toolCallsOf).map(({ toolCallId, name, arguments: text }) => {
    const args = parseJson(text);
    const { status, value, promise } = outcomeOf(results.get(toolCallId));
    return { toolCallId, name, args: isJsonObject(args) ? args : {}, status, value, promise };
  });
}

function outcomeOf(result: ToolMessage | undefined): Pick<MadeCall, 'status' | 'value' | 'promise'> {
  if (!result) return { status: 'open', value: null, promise: undefined };
  const text = textOf(result);
  const parsed = parseJson(text);
  const value = parsed === undefined ? text : parsed;
  if (result.isError !== true && !isErrorDocument(value))
    return { status: 'succeeded', value: unwrapped(value), promise: promiseIn(value) };
  const denial = denialIn(value);
  return { status: denial === undefined ? 'failed' : 'denied', value: denial ?? value, promise: undefined };
}

/** Takes a result out of the envelope `{ ok, type, result, human_readable }`. */
function unwrapped(value: JsonValue): JsonValue {
  return isJsonObject(value) && value['ok'] === true && 'result' in value ? (value['result'] ?? null) : value;
}

/** What an envelope says that tells of something yet to happen: `order.refund.requested`. */
function promiseIn(value: JsonValue): string | undefined {
  if (!isJsonObject(value)) return undefined;
  const { type, human_readable: promise } = value;
  return typeof type === 'string' && type.endsWith('.requested') && typeof promise === 'string' ? promise : undefined;
}

export function textOf(message: Message | undefined): string {
  const content: string | readonly ContentPart[] = message?.content ?? '';
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

/** What makes two calls the same: the tool and its canonical arguments. */
export function callKey(name: string, args: JsonObject): string {
  return `${name} ${canonicalJson(args)}`;
}
