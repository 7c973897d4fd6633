import {
  addUsage,
  AttemptClock,
  type LanguageModel,
  ModelError,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
  type Usage,
} from '@toolloop/protocol';
import { Interruption, linkSignal } from '../execution/call-failure.js';

/**
 * Streams one attempt of a model and keeps the time limits of the request. A model that controls them itself does so by its provider's bytes; of any other the
 * time between its events is measured.
 */
export function streamAttempt(model: LanguageModel, request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent> {
  const { timeLimits } = request;
  const isControlled = model.controls === 'time' || model.controls === 'all';
  return timeLimits === undefined || isControlled ? model.stream(request, signal) : withinLimits(model, { ...request, timeLimits }, signal);
}

type TimedRequest = ModelRequest & Required<Pick<ModelRequest, 'timeLimits'>>;

async function* withinLimits(
  model: LanguageModel,
  request: TimedRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelEvent, void, undefined> {
  const link = linkSignal(signal);
  const clock = new AttemptClock(request.timeLimits, (cause) => link.abort(new Interruption('failed', cause.message, { cause })));
  const events = new InterruptibleIterator(model.stream(request, link.signal), link.signal);
  try {
    for (;;) {
      clock.listen();
      const next = await events.next();
      clock.pause();
      if (next.done) return;
      clock.takeContent();
      yield next.value;
    }
  } catch (error) {
    throw clock.error ?? error;
  } finally {
    clock.stop();
    events.close();
    link.release();
  }
}

/** Reads an iteration until it ends or the signal is aborted, whether the iteration listens to the signal or not. One listener serves all reads. */
export class InterruptibleIterator<Value> {
  private readonly iterator: AsyncIterator<Value>;
  private reject: ((reason: Interruption) => void) | undefined;
  private readonly interrupt = (): void => this.reject?.(Interruption.from(this.signal));

  constructor(
    source: AsyncIterable<Value>,
    private readonly signal: AbortSignal,
  ) {
    this.iterator = source[Symbol.asyncIterator]();
    signal.addEventListener('abort', this.interrupt, { once: true });
  }

  next(): Promise<IteratorResult<Value>> {
    if (this.signal.aborted) return Promise.reject(Interruption.from(this.signal));
    return new Promise((resolve, reject) => {
      this.reject = reject;
      this.iterator.next().then(resolve, reject);
    });
  }

  /** Tells the source that no more is read. Not awaited: a source that hangs may hang here too. */
  close(): void {
    this.signal.removeEventListener('abort', this.interrupt);
    void this.leave().catch(() => undefined);
  }

  private async leave(): Promise<void> {
    await this.iterator.return?.();
  }
}

/** The events that show the user nothing, after which another attempt is possible. A call runs when its answer has ended, and is shown by its deltas. */
const SILENT: ReadonlySet<ModelEvent['type']> = new Set<ModelEvent['type']>(['usage', 'model', 'tool-call', 'warning']);

/**
 * One attempt to get an answer. It holds events back until there is content to show, so that the caller knows whether another attempt can replace it: once
 * content was handed out, it cannot.
 */
export class Attempt {
  private shown = false;
  private reported = NO_USAGE;

  /** @param before the usage of earlier attempts, which counts as well */
  constructor(
    private readonly model: LanguageModel,
    private readonly before: Usage = NO_USAGE,
  ) {}

  /** The usage of this attempt and of those before it. */
  get spent(): Usage {
    const { before, reported } = this;
    if (before === NO_USAGE) return reported;
    if (reported === NO_USAGE) return before;
    return { ...addUsage(before, reported), ...(hidesCost(before, reported) && { hasUnknownCost: true }) };
  }

  get hasShown(): boolean {
    return this.shown;
  }

  /**
   * Reads the answer.
   *
   * @throws the model's error, or a retryable `ModelError` for an answer that ended before it began
   */
  async *read(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const held: ModelEvent[] = [];
    for await (const said of streamAttempt(this.model, request, signal)) {
      const event = this.counted(said);
      if (!this.shown && SILENT.has(event.type)) {
        held.push(event);
        continue;
      }
      if (!this.shown) {
        if (event.type === 'finish' && event.finishReason === 'incomplete') throw brokenOff(this.model);
        this.shown = true;
        if (this.before !== NO_USAGE) yield { type: 'usage', usage: this.spent };
        yield* held.splice(0);
      }
      yield event;
    }
    if (!this.shown && !signal.aborted) throw brokenOff(this.model);
  }

  private counted(event: ModelEvent): ModelEvent {
    if (event.type !== 'usage') return event;
    this.reported = event.usage;
    return { type: 'usage', usage: this.spent };
  }
}

/** Tells whether a sum lacks a cost that one part has. If neither has one, `prices` can still compute both. */
function hidesCost(one: Usage, other: Usage): boolean {
  const isOneKnown = (one.costUsd === undefined) !== (other.costUsd === undefined);
  return isOneKnown || one.hasUnknownCost === true || other.hasUnknownCost === true;
}

/** Yields the usage of all attempts before the last failure is thrown. */
export function* usageOf({ hasShown, spent }: Attempt): Generator<ModelEvent, void, undefined> {
  if (!hasShown && spent !== NO_USAGE) yield { type: 'usage', usage: spent };
}

function brokenOff({ provider, modelId }: LanguageModel): ModelError {
  return new ModelError(`The answer of ${provider}/${modelId} broke off before it began.`, { code: 'incomplete', retryable: true });
}
