import { AttemptClock, type LanguageModel, type ModelEvent, type ModelRequest } from '@toolloop/protocol';
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
