import { MessageFlow } from '../policy/message.flow.js';
import type { Message } from '../protocol/message.js';

/** A model's words are worth what it had read: a store that forgets what that was must not forget this. */
export function labelledMessages(messages: readonly Message[]): readonly Message[] {
  const { integrity, confidentiality } = MessageFlow.of(messages);
  return messages.map((message) =>
    message.role === 'assistant' ? { ...message, labels: { returns: integrity, reads: confidentiality } } : message,
  );
}
