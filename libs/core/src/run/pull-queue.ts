import type { LoopEvent } from '@toolloop/protocol';
import type { Told } from '../call/emit-event.js';
import type { EventReader } from './event-outlet.js';

/**
 * Hands events to an iteration: its source waits until the reader asks for more, so a slow reader
 * slows the run down to its source.
 */
export class PullQueue implements EventReader {
  private readonly events: LoopEvent[] = [];
  private readonly demands: Demand[] = [];
  private resume: (() => void)[] = [];
  private hasEnded = false;
  private isReleased = false;
  private refusal: { readonly error: unknown } | undefined;

  next(event: LoopEvent): Told {
    const demand = this.demands.shift();
    if (demand) demand.meet({ done: false, value: event });
    else this.events.push(event);
    // A reader that has the run-end need not ask once more, and the run must not wait for it.
    if (this.isReleased || this.demands.length > 0 || event.type === 'run-end') return undefined;
    return new Promise((resolve) => this.resume.push(resolve));
  }

  end(): void {
    this.hasEnded = true;
    for (const demand of this.demands.splice(0)) demand.meet(END);
  }

  /** Rejects the next question of the reader with an error, and ends. */
  refuse(error: unknown): void {
    const [demand] = this.demands.splice(0, 1);
    if (demand) demand.refuse(error);
    else this.refusal = { error };
    this.end();
  }

  /** Lets the source continue without waiting: the run must end now. */
  release(): void {
    this.isReleased = true;
    this.wake();
  }

  /** Ends the reading: the events that are left are dropped. */
  leave(): void {
    this.events.length = 0;
    this.end();
    this.release();
  }

  pull(): Promise<Pulled> {
    const event = this.events.shift();
    if (event) return Promise.resolve({ done: false, value: event });
    const { refusal } = this;
    this.refusal = undefined;
    if (refusal) return Promise.reject(refusal.error);
    if (this.hasEnded) return Promise.resolve(END);
    const waiting = new Promise<Pulled>((meet, refuse) => this.demands.push({ meet, refuse }));
    this.wake();
    return waiting;
  }

  private wake(): void {
    const waiting = this.resume;
    this.resume = [];
    for (const resolve of waiting) resolve();
  }
}

const END: Pulled = { done: true, value: undefined };

type Pulled = IteratorResult<LoopEvent, undefined>;

interface Demand {
  readonly meet: (pulled: Pulled) => void;
  readonly refuse: (error: unknown) => void;
}
