import type { ModelEvent } from '@toolloop/core';
import { fromReadError } from './from-provider-error.js';
import { MessagesAnswer } from './messages.answer.js';
import { MessagesDecoder } from './messages.decoder.js';

/**
 * The events in the bytes of an answer to `POST /v1/messages`, for whoever sends the request himself. Reads no faster than it is iterated. `model` is
 * who the answer's provider data is kept for. Throws a `ModelError` for an error in the answer or a connection that breaks; `assemble` of
 * `@toolloop/core` folds the events into one answer.
 */
export async function* decodeMessages(
  body: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>,
  model = '',
): AsyncGenerator<ModelEvent, void, undefined> {
  const decoder = new MessagesDecoder(new MessagesAnswer(model));
  for await (const bytes of readsOf(body)) {
    yield* decoder.read(bytes);
    if (decoder.done) break;
  }
  yield* decoder.end();
  if (decoder.failure !== undefined) throw decoder.failure;
}

async function* readsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* body;
  } catch (error) {
    throw fromReadError(error);
  }
}
