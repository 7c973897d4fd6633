import type { AssistantMessage } from '../protocol/message.js';
import type { ModelAnswer } from './answer.assembler.js';

/** An answer as it stands in the transcript. */
export function assistantMessage({ text, reasoning, calls, citations, providerData, labels }: ModelAnswer): AssistantMessage {
  return {
    role: 'assistant',
    ...(labels && { labels }),
    content: text,
    ...(reasoning && { reasoning }),
    ...(calls.length > 0 && { toolCalls: calls }),
    ...(citations.length > 0 && { citations }),
    ...(providerData && { providerData }),
  };
}
