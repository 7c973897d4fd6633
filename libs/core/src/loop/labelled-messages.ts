import type { LoopRequest } from '../protocol/loop-request.js';
import type { Message, MessageLabels } from '../protocol/message.js';

/** A model's words are worth what it had read: a store that forgets what that was must not forget this. */
export function labelledMessages(messages: readonly Message[], labels: MessageLabels): readonly Message[] {
  return messages.map((message) => (message.role === 'assistant' ? { ...message, labels } : message));
}

/** What a user says, labelled where the request says that anybody may know it: later runs of the conversation may say otherwise of their own. */
export function asSaid<Said extends Message>(messages: readonly Said[], { labels }: Pick<LoopRequest, 'labels'>): readonly Said[] {
  if (labels?.reads !== 'public') return messages;
  return messages.map((message) => (message.role === 'user' ? { ...message, labels: { returns: 'trusted', reads: 'public' } } : message));
}
