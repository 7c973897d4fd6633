import type { LoopResult, Message } from '@toolloop/core';
import type { AssistantMessage, ToolCall, ToolMessage } from '@toolloop/protocol';
import { ExpectationError, toExcerpt } from './testing.error.js';

/**
 * Asserts that a transcript can be sent to any provider: every call has exactly one result, among
 * the tool messages right after its assistant message; ids are unique; no result is an orphan; the
 * arguments of every call that succeeded parse. For a `LoopResult`, every recorded call must be in
 * the transcript too, except those of a step that waits for decisions.
 *
 * @throws ExpectationError if it cannot be sent, with the index and id of the first violation
 */
export function expectTranscriptValid(transcript: readonly Message[] | LoopResult): void {
  const messages = isMessages(transcript) ? transcript : transcript.messages;
  const seen = new Set<string>();
  messages.forEach((message, index) => {
    if (message.role === 'tool') return expectPartner(messages, message, index);
    if (message.role !== 'assistant') return;
    const results = resultsAfter(messages, index);
    for (const call of callsOf(message)) {
      const at = `messages[${index}]: the call ${nameOf(call)}`;
      if (seen.has(call.toolCallId))
        throw new ExpectationError(`${at} has the id of an earlier call.`);
      seen.add(call.toolCallId);
      expectResult(call, results, at);
    }
  });
  if (!isMessages(transcript)) expectRecorded(transcript, seen);
}

function isMessages(transcript: readonly Message[] | LoopResult): transcript is readonly Message[] {
  return Array.isArray(transcript);
}

function callsOf(message: AssistantMessage): readonly ToolCall[] {
  return message.toolCalls ?? [];
}

/** Returns the tool messages that directly follow a message. */
function resultsAfter(messages: readonly Message[], index: number): readonly ToolMessage[] {
  const row: ToolMessage[] = [];
  for (const message of messages.slice(index + 1)) {
    if (message.role !== 'tool') break;
    row.push(message);
  }
  return row;
}

function expectResult(call: ToolCall, results: readonly ToolMessage[], at: string): void {
  const own = results.filter(({ toolCallId }) => toolCallId === call.toolCallId);
  const [result] = own;
  if (result === undefined)
    throw new ExpectationError(
      `${at} has no result right after it. There: ${listOfResults(results)}`,
    );
  if (own.length > 1) throw new ExpectationError(`${at} has ${own.length} results.`);
  if (result.toolName !== call.name)
    throw new ExpectationError(`${at} has a result of another tool, ${result.toolName}.`);
  if (result.isError !== true && !isObjectText(call.arguments)) {
    throw new ExpectationError(
      `${at} succeeded with arguments that are not a JSON object: ${toExcerpt(call.arguments)}`,
    );
  }
}

/** Asserts that the call of a tool message is in the assistant message before it. */
function expectPartner(
  messages: readonly Message[],
  { toolCallId, toolName }: ToolMessage,
  index: number,
): void {
  const asker = messages.slice(0, index).findLast(({ role }) => role !== 'tool');
  const asked = asker?.role === 'assistant' ? callsOf(asker) : [];
  if (asked.some((call) => call.toolCallId === toolCallId)) return;
  const there = asked.length === 0 ? 'no calls' : asked.map(nameOf).join(', ');
  throw new ExpectationError(
    `messages[${index}]: the result ${toolCallId} (${toolName}) is an orphan. The message before it has ${there}.`,
  );
}

function expectRecorded({ toolCalls }: LoopResult, seen: ReadonlySet<string>): void {
  const waitingStep = toolCalls.find(({ status }) => status === 'waiting')?.step;
  toolCalls.forEach(({ toolCallId, id, step }, index) => {
    if (step === waitingStep) return;
    if (!seen.has(toolCallId))
      throw new ExpectationError(
        `toolCalls[${index}]: the call ${toolCallId} (${id}) is not in the transcript.`,
      );
  });
}

/** Tells whether arguments are a JSON object; an empty text and `null` count as `{}`. */
function isObjectText(json: string): boolean {
  try {
    const value: unknown = json.trim() === '' ? {} : JSON.parse(json);
    return typeof value === 'object' && !Array.isArray(value);
  } catch {
    return false;
  }
}

function nameOf({ toolCallId, name }: ToolCall): string {
  return `${toolCallId} (${name})`;
}

function listOfResults(results: readonly ToolMessage[]): string {
  return (
    results.map(({ toolCallId, toolName }) => `${toolCallId} (${toolName})`).join(', ') ||
    'no result'
  );
}
