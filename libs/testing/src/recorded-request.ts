import type { Message, ModelRequest, ToolSpec } from '@toolloop/core';

/** What a model was asked, as it stood at that moment: later changes by the loop do not show in it. */
export interface RecordedRequest extends ModelRequest {
  /** Copies. */
  readonly messages: readonly Message[];
  /** The very message objects the loop passed, to check that the same ones come again. */
  readonly originalMessages: readonly Message[];
  /** The very array the loop passed, to check that the same one comes again. */
  readonly tools: readonly ToolSpec[];
  readonly toolIds: readonly string[];
  readonly signal: AbortSignal;
}

/** Copies what the loop could change later. */
export function toRecordedRequest(request: ModelRequest, signal: AbortSignal): RecordedRequest {
  return {
    ...request,
    messages: request.messages.map(copyOf),
    originalMessages: [...request.messages],
    toolIds: request.tools.map(({ id }) => id),
    signal,
  };
}

function copyOf(message: Message): Message {
  if (message.role === 'system') return { ...message };
  if (message.role !== 'assistant') return { ...message, content: contentOf(message.content) };
  return message.toolCalls === undefined ? { ...message } : { ...message, toolCalls: message.toolCalls.map((one) => ({ ...one })) };
}

function contentOf<Part extends object>(content: string | readonly Part[]): string | readonly Part[] {
  return typeof content === 'string' ? content : content.map((part) => ({ ...part }));
}
