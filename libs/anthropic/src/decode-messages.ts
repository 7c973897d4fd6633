import type { ModelEvent } from '@toolloop/protocol';
import { readBytes, type Bytes } from '@toolloop/wire';
import { MessagesAnswer } from './messages-answer.js';

/**
 * Decodes the bytes of an answer to `POST /v1/messages`, for an application that sends the request
 * itself: an event stream, however its bytes are cut, or the plain JSON of a server that does not
 * stream. Reads no faster than it is iterated; leaving the iteration cancels the body. Only
 * requests to `model` send the answer's provider data back.
 *
 * @throws ModelError if the answer holds an error or the connection breaks
 * @example
 * const response = await fetch('https://api.anthropic.com/v1/messages', {
 *   method: 'POST',
 *   headers,
 *   body,
 * });
 * const answer = await assemble(decodeMessages(response.body, 'claude-sonnet-5-5'));
 */
export function decodeMessages(
  body: Bytes,
  model = '',
): AsyncGenerator<ModelEvent, void, undefined> {
  return readBytes(new MessagesAnswer({ model }), body);
}
