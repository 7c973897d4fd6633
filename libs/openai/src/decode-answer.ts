import type { ModelEvent } from '@toolloop/core';
import { AnswerDecoder } from './answer.decoder.js';
import { WebBytes } from './byte-source.js';
import { withoutKey } from './from-provider-error.js';
import { ResponseBody } from './response-body.js';
import type { WireAnswer } from './wire-answer.js';
import { WIRES } from './wire.js';

/** Where an answer comes from. */
export interface AnswerSource {
  /** Asks for the body; undefined when the signal was aborted before an answer came. */
  readonly open: () => Promise<ResponseBody | undefined>;
  /** The key, which no error may repeat. */
  readonly secret?: string;
}

/** One batch per network read: what is waited for is the network, not each event. */
export async function* readAnswer(answer: WireAnswer, { open, secret }: AnswerSource): AsyncGenerator<ModelEvent, void, undefined> {
  const body = await open();
  if (body === undefined) return;
  const decoder = new AnswerDecoder(answer);
  try {
    while (!decoder.done && !body.isAborted) {
      const bytes = await body.read();
      yield* whileOpen(bytes === undefined ? decoder.end() : decoder.read(bytes), body);
    }
    if (body.isAborted) return;
    if (decoder.failure !== undefined) throw withoutKey(decoder.failure, secret);
    await body.drain();
  } finally {
    body.close();
  }
}

/** Behind an abort nothing is handed out, though it was read before. */
function* whileOpen(events: readonly ModelEvent[], body: ResponseBody): Generator<ModelEvent, void, undefined> {
  for (const event of events) {
    if (body.isAborted) return;
    yield event;
  }
}

/**
 * The events in the bytes of an answer to `POST /chat/completions`, for whoever sends the request himself. Reads no faster than it is iterated.
 * `model` is who the answer's provider data is kept for. Throws a `ModelError` for an error in the answer or a connection that breaks.
 */
export function decodeChat(body: ReadableStream<Uint8Array>, model = ''): AsyncIterable<ModelEvent> {
  return decode(WIRES.chat.answerOf(model), body);
}

/** The same for an answer to `POST /responses`. */
export function decodeResponses(body: ReadableStream<Uint8Array>, model = ''): AsyncIterable<ModelEvent> {
  return decode(WIRES.responses.answerOf(model), body);
}

function decode(answer: WireAnswer, body: ReadableStream<Uint8Array>): AsyncIterable<ModelEvent> {
  return readAnswer(answer, { open: () => Promise.resolve(new ResponseBody(new WebBytes(body))) });
}
