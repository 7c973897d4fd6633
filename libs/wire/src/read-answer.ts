import { AnswerFold, ModelError, type ModelEvent, type ModelFinish, NO_USAGE } from '@toolloop/protocol';
import { AnswerDecoder, type WireAnswer } from './answer-decoder.js';
import { fromReadError } from './from-failure.js';
import { type ByteSource, IteratedBytes, WebBytes } from './http-fetch.js';

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

/** How long the end of a body may take to come, in milliseconds, once the answer in it is complete. */
const DRAIN_MS = 250;

/** A response's bytes, read one network read at a time, only when asked for. Aborting the signal closes the socket at once, whoever waits. */
export class ResponseBody {
  constructor(
    private readonly bytes: ByteSource | undefined,
    private readonly signal?: AbortSignal,
  ) {
    signal?.addEventListener('abort', this.close, { once: true });
    if (signal?.aborted) this.close();
  }

  get isAborted(): boolean {
    return this.signal?.aborted ?? false;
  }

  /** Undefined at the end, and when the signal was aborted. */
  async read(): Promise<Uint8Array | undefined> {
    try {
      return await this.bytes?.read();
    } catch (error) {
      if (this.isAborted) return undefined;
      throw fromReadError(error);
    }
  }

  /** Reads to the end, so that the connection can serve the next request. A server that never ends its body loses it instead. */
  async drain(): Promise<void> {
    const timer = setTimeout(this.close, DRAIN_MS);
    try {
      while ((await this.bytes?.read()) !== undefined);
    } catch {
      // The answer was complete before the connection broke.
    } finally {
      clearTimeout(timer);
    }
  }

  readonly close = (): void => {
    this.signal?.removeEventListener('abort', this.close);
    this.bytes?.close();
  };
}
