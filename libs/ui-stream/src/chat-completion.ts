import type { JsonObject, LoopEvent } from '@toolloop/protocol';
import {
  type ChatCompletionsOptions,
  clientCallOf,
  finishOf,
  usageOf,
} from './chat-completions-encoder.js';

/**
 * The answer of a chat completion that is not streamed, from all events of its run.
 *
 * @example
 * const body = toChatCompletion(events, { model, created });
 */
export function toChatCompletion(
  events: readonly LoopEvent[],
  { model, created }: ChatCompletionsOptions,
): JsonObject {
  const end = events.findLast((event) => event.type === 'run-end');
  const answer = { id: `chatcmpl-${end?.runId ?? ''}`, object: 'chat.completion', created, model };
  const calls = callsIn(events);
  const message = {
    role: 'assistant',
    content: end?.text ?? '',
    refusal: null,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const finish = calls.length > 0 ? 'tool_calls' : finishOf(end);
  const choices = [{ index: 0, message, finish_reason: finish, logprobs: null }];
  return { ...answer, choices, ...(end && { usage: { ...usageOf(end) } }) };
}

function callsIn(events: readonly LoopEvent[]): JsonObject[] {
  const calls: JsonObject[] = [];
  for (const event of events) {
    const call = clientCallOf(event, calls.length);
    if (call) calls.push({ id: call.id, type: call.type, function: { ...call.function } });
  }
  return calls;
}
