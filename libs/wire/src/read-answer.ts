import {
  AnswerFold,
  AttemptClock,
  BatchedEvents,
  type EventBatches,
  ModelError,
  type ModelEvent,
  type ModelFinish,
  type ModelTimeLimits,
  NO_USAGE,
} from '@toolloop/protocol';
import { AnswerDecoder, type WireAnswer } from './answer-decoder.js';
import { IteratedBytes, ResponseBody, WebBytes } from './byte-source.js';
import { fromReadError } from './from-failure.js';

/**
 * Reads an answer as model events, one batch per network read, so that the reader waits for the
 * network and not for each event. Once the provider has said how the answer ends, it is complete,
 * even if its connection then breaks or never ends. The usage of an answer that fails comes before
 * its error.
 *
 * @throws ModelError if the request is refused, the connection breaks, a time limit is reached or
 *   the answer holds a failure
 */
export function readAnswer(answer: WireAnswer, source: AnswerSource): BatchedEvents {
  return new BatchedEvents(new AnswerReading(answer, source), source.signal);
}

/** A body as a web stream or as an iterable. */
export type Bytes = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** The source of an answer. */
export interface AnswerSource {
  /**
   * Requests the body; undefined when the signal was aborted before an answer came. Called again
   * for as long as the answer is paused. The signal belongs to this answer alone: it is aborted
   * when a time limit is reached, too.
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
  /** Loads the SDK for the first request: it is most of what a wire weighs. */
  readonly client: () => Promise<Client>;
  readonly apiKey: string;
  /** The milliseconds until an answer must begin, where the model has a limit of its own. */
  readonly firstByteMs: number | undefined;
}

export const NO_LIMITS: ModelTimeLimits = {
  firstByteMs: Infinity,
  firstContentMs: Infinity,
  idleMs: Infinity,
};

/**
 * The number of characters after which `finish` no longer repeats the answer, so that an endless
 * one is not kept in memory.
 */
const MOST_TO_REPEAT = 4_000_000;

/** The reading of an answer, which may come in several bodies. */
class AnswerReading implements EventBatches {
  private readonly own = new AbortController();
  private hasBegun = false;
  private isClosed = false;
  private failure: { readonly error: unknown } | undefined;
  private clock: AttemptClock | undefined;
  private body: BodyReading | undefined;
  /** Ends the wait for a response: a `fetch` of the application may ignore the signal. */
  private leave: (() => void) | undefined;

  constructor(
    private readonly answer: WireAnswer,
    private readonly source: AnswerSource,
  ) {}

  /** A failure is still to be thrown behind what came last. */
  get hasEnded(): boolean {
    return this.isClosed && this.failure === undefined;
  }

  /**
   * One function and one promise for all that is waited for: each further one would be made in
   * every step.
   */
  async next(): Promise<readonly ModelEvent[] | undefined> {
    try {
      const warnings = this.begin();
      if (warnings.length > 0) return warnings;
      while (!this.isClosed) {
        this.body ??= this.opened(await this.opening());
        const reading = this.read();
        let bytes: Uint8Array | undefined;
        try {
          bytes = reading instanceof Promise ? await reading : reading;
        } catch (error) {
          this.body?.breakOff(error);
        }
        const ending = this.take(bytes);
        if (ending) await ending;
        const events = this.taken();
        if (events) return events;
      }
      return undefined;
    } catch (error) {
      return this.failed(error);
    }
  }

  readonly close = (): void => {
    this.isClosed = true;
    this.source.signal?.removeEventListener('abort', this.abort);
    this.closeBody();
  };

  /** Ends what the answer waits for: its request, the response or the next bytes. */
  private readonly abort = (): void => {
    this.own.abort();
    this.leave?.();
    this.body?.close();
  };

  private read(): ReturnType<BodyReading['read']> {
    return this.body?.read();
  }

  private take(bytes: Uint8Array | undefined): Promise<void> | undefined {
    return this.body?.take(bytes, this.source.signal);
  }

  /** Returns the events that came last; undefined for none, and at the end. */
  private taken(): readonly ModelEvent[] | undefined {
    const events = this.body?.events;
    if (events?.length === 0) return undefined;
    this.closeBehind(events);
    return events;
  }

  /** Closes what is over once these events came, the last ones or none. */
  private closeBehind(events: readonly ModelEvent[] | undefined): void {
    if (events !== undefined && this.body?.isOver !== true) return;
    if (!this.answer.isPaused || this.own.signal.aborted) this.close();
    else if (events === undefined) this.closeBody();
  }

  /** Returns what comes before the answer. */
  private begin(): readonly ModelEvent[] {
    if (this.failure !== undefined) throw this.failure.error;
    if (this.hasBegun) return [];
    this.hasBegun = true;
    const { signal, warnings = [] } = this.source;
    this.isClosed ||= signal?.aborted === true;
    if (this.isClosed) return [];
    signal?.addEventListener('abort', this.abort, { once: true });
    return warnings.map((message) => ({ type: 'warning', message }));
  }

  private opening(): Promise<ResponseBody | undefined> {
    this.clock = new AttemptClock(this.source.timeLimits ?? NO_LIMITS, this.abort);
    this.clock.listen();
    return new Promise((resolve, reject) => {
      this.leave = () => resolve(undefined);
      this.request().then(resolve, reject);
    });
  }

  /** Requests the body, and closes one that comes when nothing waits for it any more. */
  private async request(): Promise<ResponseBody | undefined> {
    const { signal } = this.own;
    const body = await this.source.open(signal);
    if (signal.aborted) body?.close();
    return body;
  }

  private opened(body: ResponseBody | undefined): BodyReading | undefined {
    const { answer, clock } = this;
    if (this.isClosed || this.own.signal.aborted) body?.close();
    if (clock?.error !== undefined) throw clock.error;
    return body && clock && new BodyReading(answer, body, clock);
  }

  private closeBody(): void {
    this.clock?.stop();
    this.body?.close();
    this.body = undefined;
  }

  /** Ends a failed answer. What it has cost comes before its failure. */
  private async failed(error: unknown): Promise<readonly ModelEvent[]> {
    const { reportedUsage: usage } = this.answer;
    const isReported = this.failure !== undefined || usage === undefined;
    this.close();
    const failure = (this.failure ??= {
      error: error instanceof ModelError ? await this.source.veil(error) : error,
    });
    if (isReported) throw failure.error;
    return [{ type: 'usage', usage }];
  }
}

/** The reading of one body. */
class BodyReading {
  /** `true` once nothing of the body is left. */
  isOver = false;
  /**
   * The events that were taken last; undefined once the answer is complete, or the signal is
   * aborted.
   */
  events: readonly ModelEvent[] | undefined = [];
  private readonly decoder: AnswerDecoder;

  constructor(
    private readonly answer: WireAnswer,
    private readonly body: ResponseBody,
    private readonly clock: AttemptClock,
  ) {
    this.decoder = new AnswerDecoder(answer);
  }

  /** Reads the next bytes; a promise where they have to be waited for. */
  read(): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    if (this.decoder.done) return undefined;
    this.clock.listen();
    return this.body.read();
  }

  /**
   * Takes what was read. Returns a promise while the end of the body is read, behind that of the
   * answer.
   */
  take(bytes: Uint8Array | undefined, signal: AbortSignal | undefined): Promise<void> | undefined {
    const { decoder } = this;
    this.events = decoder.done ? undefined : this.eventsIn(bytes, signal);
    if (this.events !== undefined) return this.isWhollyHere ? this.finish() : undefined;
    if (decoder.failure !== undefined) throw decoder.failure;
    return decoder.done ? this.finish() : undefined;
  }

  private eventsIn(
    bytes: Uint8Array | undefined,
    signal: AbortSignal | undefined,
  ): readonly ModelEvent[] | undefined {
    const { clock } = this;
    clock.pause();
    if (clock.error !== undefined && !this.answer.isWhole) throw clock.error;
    return signal?.aborted ? undefined : this.decoded(bytes);
  }

  private get isWhollyHere(): boolean {
    return this.body.isComplete && this.decoder.done && this.decoder.failure === undefined;
  }

  private finish(): Promise<void> | undefined {
    if (this.isOver) return undefined;
    this.isOver = true;
    return this.body.drain();
  }

  private decoded(bytes: Uint8Array | undefined): readonly ModelEvent[] {
    const events = bytes === undefined ? this.decoder.end() : this.decoder.read(bytes);
    this.note(events);
    return events.map((event) => (event.type === 'finish' ? this.identified(event) : event));
  }

  close(): void {
    this.body.close();
  }

  /** A broken connection is the end where the answer is whole, and where it was closed here. */
  breakOff(error: unknown): void {
    if (!this.answer.isWhole && !this.body.signal?.aborted) throw fromReadError(error);
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
 * Decodes the bytes of an answer that the application requested itself. The last event, `finish`,
 * repeats the whole answer: text, reasoning, calls and usage. Reads no faster than it is iterated.
 * Beyond 4 million characters `finish` leaves text and reasoning out; the deltas have them.
 */
export async function* readBytes(
  answer: WireAnswer,
  bytes: Bytes,
): AsyncGenerator<ModelEvent, void, undefined> {
  const source = 'getReader' in bytes ? new WebBytes(bytes) : new IteratedBytes(bytes);
  const fold = new AnswerFold();
  for await (const event of readAnswer(answer, {
    open: () => Promise.resolve(new ResponseBody(source)),
    veil: (error) => error,
  })) {
    if (!isDelta(event) || fold.size <= MOST_TO_REPEAT) fold.take(event);
    yield event.type === 'finish' ? { ...event, ...repeated(fold), ...said(answer) } : event;
  }
}

function isDelta({ type }: ModelEvent): boolean {
  return type === 'text-delta' || type === 'reasoning-delta';
}

function repeated(
  fold: AnswerFold,
): Pick<ModelFinish, 'text' | 'reasoning' | 'toolCalls' | 'usage'> {
  const { text, reasoning, toolCalls, usage } = fold.answer;
  const words = fold.size <= MOST_TO_REPEAT && { text, reasoning };
  return { ...words, toolCalls, ...(usage !== NO_USAGE && { usage }) };
}

function said({ providerReason }: WireAnswer): Pick<ModelFinish, 'providerReason'> {
  return providerReason === undefined ? {} : { providerReason };
}
