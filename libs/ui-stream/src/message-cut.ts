import type { JsonObject } from '@toolloop/protocol';

/**
 * The place at which a conversation is cut: by ids of runs and of messages of the user, and the
 * runs whose answers stay before it.
 */
export interface MessageCut {
  readonly at: readonly string[];
  readonly after: readonly string[];
}

const MOST_PLACES = 50;

/**
 * Makes the place of the answer to the last of the messages, which is a user's: by the id that the
 * client names, and that of the message. The answers before it stay. Their ids are those of their
 * runs.
 */
export function cutBefore(messages: readonly JsonObject[], named?: string): MessageCut {
  const ids = messages
    .filter(({ role }) => role === 'assistant')
    .flatMap(({ id }) => (typeof id === 'string' && id !== '' ? [id] : []));
  const last = messages.at(-1)?.['id'];
  const at = [named, last].filter((id) => typeof id === 'string' && id !== '').map(String);
  return { at: [...new Set(at)], after: ids.slice(-MOST_PLACES) };
}
