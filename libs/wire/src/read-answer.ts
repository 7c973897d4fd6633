import {
  AnswerFold,
  AttemptClock,
  ModelError,
  type ModelEvent,
  type ModelFinish,
  type ModelRequest,
  type ModelTimeLimits,
  NO_USAGE,
} from '@toolloop/protocol';
import { AnswerDecoder, type WireAnswer } from './answer-decoder.js';
import { type ByteSource, IteratedBytes, WebBytes } from './byte-source.js';
import { fromReadError } from './from-failure.js';
import { failureText, isOk, type RepeatedRequests } from './http-fetch.js';
import { parseWireObject } from './wire-object.js';

/** The number of characters after which `finish` no longer repeats the answer, so that an endless one is not kept in memory. */
const MOST_TO_REPEAT = 4_000_000;

/** A body as a web stream or as an iterable. */
export type Bytes = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** The source of an answer. */
export interface AnswerSource {
  /**
   * Requests the body; undefined when the signal was aborted before an answer came. Called again for as long as the answer is paused. The signal belongs to
   * this answer alone: it is aborted when a time limit is reached, too.
   */
  readonly open: (signal: AbortSignal) => Promise<ResponseBody | undefined>;
  /** Removes the values that no error may repeat from one. */
  readonly veil: (error: ModelError) => ModelError | Promise<ModelError>;
  /** Ends the reading without an error. */
  readonly signal?: AbortSignal;
  /** Warnings that come before the answer, such as of an option that the provider does not have. */
  readonly warnings?: readonly string[];
  /** The time limits of each request. @default none */
  readonly timeLimits?: ModelTimeLimits | undefined;
}

/** A client of a provider's SDK, and what the reader of its answers has to know. */
export interface Connection<Client> {
  readonly client: Client;
  /** The requests behind the first, which need no SDK. There are none where the application sends requests by a `fetch` of its own. */
  readonly repeated: RepeatedRequests;
  readonly apiKey: string;
  /** The milliseconds until an answer must begin, where the model has a limit of its own. */
  readonly firstByteMs: number | undefined;
}

/** The errors of a provider's SDK, for requests that it did not send itself: what reads them need not know who sent a request. */
export interface SdkErrors {
  /** The error of a request without an answer. */
  unreachable(cause: Error): Error;
  /** The error of an answer with a failure status; `text` is its body where that is no JSON. */
  refused(answer: { readonly status: number; readonly headers: Headers }, body: object | undefined, text: string | undefined): Error;
}

/**
 * Repeats the request of a model with another body.
 *
 * @throws the errors of the SDK, for a request without an answer and for an answer with a failure status
 */
export async function repeatRequest(
  requests: RepeatedRequests,
  body: readonly Uint8Array[],
  signal: AbortSignal,
  errors: SdkErrors,
): Promise<ResponseBody> {
  const answer = await requests.send(body, signal).catch((error: unknown) => {
    throw errors.unreachable(error instanceof Error ? error : new Error(String(error)));
  });
  if (isOk(answer.status)) return new ResponseBody(answer.bytes, signal, answer.requestId);
  const text = await failureText(answer);
  const error = parseWireObject(text);
  throw errors.refused(answer, error, error ? undefined : text);
}

/** The SDKs' own timeout, which has no value for "none": the longest that a timer supports. */
export const NO_TIMEOUT = 2 ** 31 - 1;

/** The milliseconds until an answer must begin if neither the model nor the request says so. */
const FIRST_BYTE_MS = 600_000;

/** Returns the time limits of a request, of which the model may have one itself. */
export function toTimeLimits({ timeLimits }: ModelRequest, firstByteMs: number | undefined): ModelTimeLimits {
  return { ...(timeLimits ?? NO_LIMITS), firstByteMs: firstByteMs ?? timeLimits?.firstByteMs ?? FIRST_BYTE_MS };
}

const NO_LIMITS: ModelTimeLimits = { firstByteMs: Infinity, firstContentMs: Infinity, idleMs: Infinity };

/**
 * Reads an answer as model events, one batch per network read, so that the reader waits for the network and not for each event. Once the provider has said how
 * the answer ends, it is complete, even if its connection then breaks or never ends. The usage of an answer that fails comes before its error.
 *
 * @throws ModelError if the request is refused, the connection breaks, a time limit is reached or the answer holds a failure
 */
export async function* readAnswer(answer: WireAnswer, source: AnswerSource): AsyncGenerator<ModelEvent, void, undefined> {
  const { signal } = source;
  const own = new AbortController();
  const abort = (): void => own.abort();
  if (signal?.aborted) return;
  signal?.addEventListener('abort', abort, { once: true });
  try {
    yield* warningsOf(source);
    do yield* readBody(answer, source, own);
    while (answer.isPaused && !own.signal.aborted);
  } catch (error) {
    yield* usageOf(answer);
    throw await veiled(error, source);
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

function* warningsOf({ warnings = [] }: AnswerSource): Generator<ModelEvent, void, undefined> {
  for (const message of warnings) yield { type: 'warning', message };
}

function* usageOf({ reportedUsage: usage }: WireAnswer): Generator<ModelEvent, void, undefined> {
  if (usage !== undefined) yield { type: 'usage', usage };
}

async function veiled(error: unknown, { veil }: AnswerSource): Promise<unknown> {
  return error instanceof ModelError ? await veil(error) : error;
}

async function* readBody(answer: WireAnswer, source: AnswerSource, own: AbortController): AsyncGenerator<ModelEvent, void, undefined> {
  const clock = new AttemptClock(source.timeLimits ?? NO_LIMITS, () => own.abort());
  let body: ResponseBody | undefined;
  try {
    clock.listen();
    body = await untilAborted(source.open(own.signal), own.signal);
    if (clock.error !== undefined) throw clock.error;
    if (body !== undefined) yield* new BodyReading(answer, body, clock).events(source.signal);
  } finally {
    clock.stop();
    body?.close();
  }
}

/** Waits for a response no longer than until the signal is aborted: a `fetch` of the application may ignore it. */
function untilAborted(opening: Promise<ResponseBody | undefined>, signal: AbortSignal): Promise<ResponseBody | undefined> {
  return new Promise((resolve, reject) => {
    const leave = (): void => resolve(undefined);
    signal.addEventListener('abort', leave, { once: true });
    const settle =
      <Value>(outcome: (value: Value) => void) =>
      (value: Value): void => {
        signal.removeEventListener('abort', leave);
        outcome(value);
      };
    opening.then(settle(resolve), settle<unknown>(reject));
  });
}

/** The reading of one body. */
class BodyReading {
  private readonly decoder: AnswerDecoder;

  constructor(
    private readonly answer: WireAnswer,
    private readonly body: ResponseBody,
    private readonly clock: AttemptClock,
  ) {
    this.decoder = new AnswerDecoder(answer);
  }

  /** Reads until the answer is complete or the signal is aborted; events behind the abort are dropped, though they were read before. */
  async *events(signal: AbortSignal | undefined): AsyncGenerator<ModelEvent, void, undefined> {
    const { decoder } = this;
    while (!decoder.done) {
      const bytes = await this.nextBytes();
      if (signal?.aborted) return;
      const events = bytes === undefined ? decoder.end() : decoder.read(bytes);
      this.note(events);
      for (const event of events) {
        yield event.type === 'finish' ? this.identified(event) : event;
        if (signal?.aborted) return;
      }
    }
    if (decoder.failure !== undefined) throw decoder.failure;
    await this.body.drain();
  }

  /** Waits for the next bytes; undefined at the end, which a broken or silent connection is too where the answer is whole. */
  private async nextBytes(): Promise<Uint8Array | undefined> {
    const { answer, body, clock } = this;
    clock.listen();
    try {
      const bytes = await body.read();
      if (clock.error !== undefined && !answer.isWhole) throw clock.error;
      return bytes;
    } catch (error) {
      if (answer.isWhole) return undefined;
      throw error;
    } finally {
      clock.pause();
    }
  }

  private identified(finish: ModelFinish): ModelFinish {
    const { requestId } = this.body;
    const response = { ...this.answer.identity, ...(requestId !== undefined && { requestId }) };
    return Object.keys(response).length === 0 ? finish : { ...finish, response };
  }

  private note(events: readonly ModelEvent[]): void {
    if (events.length > 0) this.clock.takeContent();
    else if (this.answer.isWhole) this.clock.takeEnd();
    else this.clock.takeLife();
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

/** The milliseconds that the end of a body may take once the answer in it is complete. */
const DRAIN_MS = 250;

/** The bytes of a response, one network read at a time and only when asked for. Aborting the signal closes the socket at once, also during a read. */
export class ResponseBody {
  constructor(
    private readonly bytes: ByteSource | undefined,
    private readonly signal?: AbortSignal,
    /** The provider's id of the request. */
    readonly requestId?: string,
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
