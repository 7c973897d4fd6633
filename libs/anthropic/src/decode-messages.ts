import type { ModelEvent } from '@toolloop/protocol';
import { readBytes, type Bytes } from '@toolloop/wire';
import { MessagesAnswer } from './messages-answer.js';

/**
 * The events in the bytes of an answer to `POST /v1/messages`, for whoever sends the request himself: an event stream, however its bytes are cut, or the
 * plain JSON of a server that does not stream. Reads no faster than it is iterated; leaving the iteration cancels the body. `model` is who the answer's
 * provider data is kept for. Throws a `ModelError` for an error in the answer or a connection that breaks; `assemble` of `@toolloop/core` folds the
 * events into one answer.
 */
export function decodeMessages(body: Bytes, model = ''): AsyncGenerator<ModelEvent, void, undefined> {
  return readBytes(new MessagesAnswer(model), body);
}
