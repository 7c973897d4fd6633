import { AnswerFold, ModelError, NO_USAGE, type ModelEvent, type ModelFinish } from '@toolloop/core';
import { AnswerDecoder } from './answer.decoder.js';
import { IteratedBytes, WebBytes } from './byte-source.js';
import { ResponseBody } from './response-body.js';
import type { WireAnswer } from './wire-answer.js';

/** Characters; whoever decodes an endless answer is not to keep it all. */
const MOST_TO_REPEAT = 4_000_000;

/** A body, as whoever has it holds it. */
export type Bytes = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** Where an answer comes from. */
export interface AnswerSource {
  /** Asks for the body; undefined when the signal was aborted before an answer came. Asked again for as long as the answer is paused. */
  readonly open: () => Promise<ResponseBody | undefined>;
  /** Takes what no error may repeat out of one. */
  readonly veil: (error: ModelError) => ModelError;
}

/** One batch per network read: what is waited for is the network, not each event. */
export async function* readAnswer(answer: WireAnswer, { open, veil }: AnswerSource): AsyncGenerator<ModelEvent, void, undefined> {
  do {
    const body = await veiled(open(), veil);
    if (body === undefined) return;
    const decoder = new AnswerDecoder(answer);
    try {
      while (!decoder.done && !body.isAborted) {
        const bytes = await body.read();
        yield* whileOpen(bytes === undefined ? decoder.end() : decoder.read(bytes), body);
      }
      if (body.isAborted) return;
      if (decoder.failure !== undefined) throw veil(decoder.failure);
      await body.drain();
    } finally {
      body.close();
    }
  } while (answer.isPaused);
}

async function veiled<Result>(opening: Promise<Result>, veil: AnswerSource['veil']): Promise<Result> {
  try {
    return await opening;
  } catch (error) {
    throw error instanceof ModelError ? veil(error) : error;
  }
}

/**
 * The events in the bytes of an answer that somebody else asked for; the last, `finish`, says once more what the answer was: text, reasoning, calls and usage.
 * Reads no faster than it is iterated. Of more than 4 M characters text and reasoning are left out of `finish`, and are in the deltas alone.
 */
export async function* readBytes(answer: WireAnswer, bytes: Bytes): AsyncGenerator<ModelEvent, void, undefined> {
  const source = 'getReader' in bytes ? new WebBytes(bytes) : new IteratedBytes(bytes);
  const fold = new AnswerFold();
  for await (const event of readAnswer(answer, { open: () => Promise.resolve(new ResponseBody(source)), veil: (error) => error })) {
    if (!isDelta(event) || fold.size <= MOST_TO_REPEAT) fold.take(event);
    yield event.type === 'finish' ? { ...event, ...repeated(fold), ...said(answer) } : event;
  }
}

function isDelta({ type }: ModelEvent): boolean {
  return type === 'text-delta' || type === 'reasoning-delta';
}

function repeated(fold: AnswerFold): Pick<ModelFinish, 'text' | 'reasoning' | 'toolCalls' | 'usage'> {
  const { text, reasoning, toolCalls, usage } = fold.answer;
  const words = fold.size <= MOST_TO_REPEAT && { text, reasoning };
  return { ...words, toolCalls, ...(usage !== NO_USAGE && { usage }) };
}

function said({ providerReason }: WireAnswer): Pick<ModelFinish, 'providerReason'> {
  return providerReason === undefined ? {} : { providerReason };
}

/** Behind an abort nothing is handed out, though it was read before. */
function* whileOpen(events: readonly ModelEvent[], body: ResponseBody): Generator<ModelEvent, void, undefined> {
  for (const event of events) {
    if (body.isAborted) return;
    yield event;
  }
}
