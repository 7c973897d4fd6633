import type { ModelEvent } from '@toolloop/protocol';
import { readBytes, type Bytes } from '@toolloop/wire';
import { ChatAnswer } from './chat-answer.js';
import { ResponsesAnswer } from './responses-answer.js';

/**
 * Decodes the bytes of an answer to `POST /chat/completions`, for an application that sends the
 * request itself: an event stream, however its bytes are cut, or the plain JSON of a server that
 * does not stream. Reads no faster than it is iterated; leaving the iteration cancels the body.
 * Only requests to `model` send the answer's provider data back.
 *
 * @throws ModelError if the answer holds an error or the connection breaks
 * @example
 * const response = await fetch(`${baseURL}/chat/completions`, { method: 'POST', headers, body });
 * const answer = await assemble(decodeChatCompletions(response.body, 'gpt-5-mini'));
 */
export function decodeChatCompletions(
  body: Bytes,
  model = '',
): AsyncGenerator<ModelEvent, void, undefined> {
  return readBytes(new ChatAnswer({ model }), body);
}

/**
 * Decodes the bytes of an answer to `POST /responses`, as {@link decodeChatCompletions} does for
 * chat completions.
 *
 * @throws ModelError if the answer holds an error or the connection breaks
 */
export function decodeResponses(
  body: Bytes,
  model = '',
): AsyncGenerator<ModelEvent, void, undefined> {
  return readBytes(new ResponsesAnswer({ model }), body);
}
