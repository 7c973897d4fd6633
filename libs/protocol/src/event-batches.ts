import type { ModelEvent } from './language-model.js';

/** The events of an answer as they come: together where one read of the network brought them. */
export interface EventBatches {
  /** Resolves to the next events; undefined at the end. Asked again only once it has answered. */
  next(): Promise<readonly ModelEvent[] | undefined>;
  /** `true` once it is known that nothing follows what came last, which saves asking. */
  readonly hasEnded?: boolean;
  /** Ends the answer early. What it reads from is closed. */
  close(): void | Promise<void>;
}

/**
 * An answer that can be read event by event, and by a reader who asks for it batch by batch: an
 * iteration costs some promises for each event and each model around the model.
 *
 * @example
 * for await (const event of new BatchedEvents(batches)) show(event);
 */
export class BatchedEvents implements AsyncGenerator<ModelEvent, void, undefined> {
  private events: Iterator<ModelEvent> = [][Symbol.iterator]();
  private hasEnded = false;

  /** @param signal ends the iteration: events that were read before are dropped */
  constructor(
    readonly batches: EventBatches,
    private readonly signal?: AbortSignal,
  ) {}

  async next(): Promise<IteratorResult<ModelEvent, void>> {
    while (!this.hasEnded && this.signal?.aborted !== true) {
      const event = this.events.next();
      if (event.done !== true) return event;
      const batch =
        this.batches.hasEnded === true
          ? undefined
          : await this.batches.next().catch((error: unknown) => {
              this.hasEnded = true;
              throw error;
            });
      if (batch === undefined) this.hasEnded = true;
      else this.events = batch[Symbol.iterator]();
    }
    return this.return();
  }

  async return(): Promise<IteratorResult<ModelEvent, void>> {
    this.hasEnded = true;
    await this.batches.close();
    return { done: true, value: undefined };
  }

  /** @throws the error that it is given */
  async throw(error: unknown): Promise<IteratorResult<ModelEvent, void>> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

/**
 * Returns the batches of an answer. The events of a model that gives them one by one come alone.
 */
export function batchesOf(events: AsyncIterable<ModelEvent>): EventBatches {
  if (events instanceof BatchedEvents) return events.batches;
  const iterator = events[Symbol.asyncIterator]();
  return {
    next: async () => {
      const next = await iterator.next();
      return next.done === true ? undefined : [next.value];
    },
    close: async () => void (await iterator.return?.()),
  };
}
