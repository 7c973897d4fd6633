import type { LanguageModel, ModelEvent, ModelRequest } from '@toolloop/protocol';
import { Interruption, type LinkedSignal, linkSignal } from '../execution/call-failure.js';

/** Limits of one reading: the signal that ends it, and how many milliseconds the model may send nothing. */
interface ReadingLimits {
  readonly signal: AbortSignal;
  readonly modelIdleMs: number;
}

/** A reader of events, one by one; a promise makes the reading wait. */
type EventTaker = (event: ModelEvent) => void | Promise<void>;

/** Reads one answer of a model to its end. Never throws: answers with what cut it short, if anything did. */
export async function readModel(model: LanguageModel, request: ModelRequest, limits: ReadingLimits, take: EventTaker): Promise<unknown> {
  const link = linkSignal(limits.signal);
  const idle = new IdleTimeout(link, limits.modelIdleMs);
  try {
    const events = new InterruptibleIterator(model.stream(request, link.signal), link.signal);
    await readAll(events, take, idle).finally(() => events.close());
    return link.signal.aborted ? Interruption.from(link.signal) : undefined;
  } catch (error) {
    return link.signal.aborted ? Interruption.from(link.signal) : error;
  } finally {
    idle.stop();
    link.release();
  }
}

async function readAll(events: InterruptibleIterator<ModelEvent>, take: EventTaker, idle: IdleTimeout): Promise<void> {
  for (;;) {
    idle.listen();
    const next = await events.next();
    idle.pause();
    if (next.done) return;
    const slowReader = take(next.value);
    if (slowReader) await slowReader;
  }
}

/** Reads an iteration until it ends or the signal is aborted, whether the iteration listens to the signal or not. One listener serves all reads. */
class InterruptibleIterator<Value> {
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

/** Interrupts a model that stays silent for too long. The time in which the reader of the events makes the run wait does not count. */
class IdleTimeout {
  private timer: NodeJS.Timeout;
  private isListening = false;
  private since = 0;

  constructor(
    private readonly link: LinkedSignal,
    private readonly ms: number,
  ) {
    this.timer = setTimeout(() => this.check(), ms);
  }

  listen(): void {
    this.since = performance.now();
    this.isListening = true;
  }

  pause(): void {
    this.isListening = false;
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private check(): void {
    const silentFor = this.isListening ? performance.now() - this.since : 0;
    if (this.isListening && silentFor >= this.ms) this.link.abort(new Interruption('timeout', `The model was silent for ${this.ms} ms.`));
    else this.timer = setTimeout(() => this.check(), this.ms - silentFor);
  }
}
