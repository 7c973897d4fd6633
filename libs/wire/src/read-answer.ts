import { AnswerFold, ModelError, type ModelEvent, type ModelFinish, NO_USAGE } from '@toolloop/protocol';
import { AnswerDecoder, type WireAnswer } from './answer-decoder.js';
import { fromReadError } from './from-failure.js';
import { type ByteSource, IteratedBytes, WebBytes } from './http-fetch.js';

/** The number of characters after which `finish` no longer repeats the answer, so that an endless one is not kept in memory. */
const MOST_TO_REPEAT = 4_000_000;

/** A body as a web stream or as an iterable. */
export type Bytes = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** The source of an answer. */
export interface AnswerSource {
  /** Requests the body; undefined when the signal was aborted before an answer came. Called again for as long as the answer is paused. */
  readonly open: () => Promise<ResponseBody | undefined>;
  /** Removes the values that no error may repeat from one. */
  readonly veil: (error: ModelError) => ModelError;
}

/**
 * Reads an answer as model events, one batch per network read, so that the reader waits for the network and not for each event.
 *
 * @throws ModelError if the request is refused, the connection breaks or the answer holds a failure
 */
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
 * Decodes the bytes of an answer that the application requested itself. The last event, `finish`, repeats the whole answer: text, reasoning, calls and usage.
 * Reads no faster than it is iterated. Beyond 4 million characters `finish` leaves text and reasoning out; the deltas have them.
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

/** Yields the events until the body is aborted: later ones are dropped, though they were read before. */
function* whileOpen(events: readonly ModelEvent[], body: ResponseBody): Generator<ModelEvent, void, undefined> {
  for (const event of events) {
    if (body.isAborted) return;
    yield event;
  }
}

/** The milliseconds that the end of a body may take once the answer in it is complete. */
const DRAIN_MS = 250;

/** The bytes of a response, one network read at a time and only when asked for. Aborting the signal closes the socket at once, also during a read. */
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

  /**
   * Reads the next bytes; undefined at the end, and when the signal was aborted.
   *
   * @throws ModelError if the connection breaks
   */
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
