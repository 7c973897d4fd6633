import type { LoopEvent } from '../protocol/loop-event.js';
import type { EventReader } from './event.outlet.js';

/** Hands events to an iteration: whoever emits waits until the reader asks for more, so a slow reader slows the run down to its source. */
export class PullQueue implements EventReader {
  private readonly events: LoopEvent[] = [];
  private demand: ((result: IteratorResult<LoopEvent, undefined>) => void) | undefined;
  private resume: (() => void)[] = [];
  private hasEnded = false;
  private isReleased = false;

  next(event: LoopEvent): void | Promise<void> {
    const { demand } = this;
    this.demand = undefined;
    if (demand) demand({ done: false, value: event });
    else this.events.push(event);
    if (this.isReleased) return undefined;
    return new Promise((resolve) => this.resume.push(resolve));
  }

  end(): void {
    this.hasEnded = true;
    this.demand?.({ done: true, value: undefined });
    this.demand = undefined;
  }

  /** Lets whoever emits go on without waiting: nobody reads any more, or the run must end now. */
  release(): void {
    this.isReleased = true;
    this.wake();
  }

  pull(): Promise<IteratorResult<LoopEvent, undefined>> {
    const event = this.events.shift();
    if (event) return Promise.resolve({ done: false, value: event });
    if (this.hasEnded) return Promise.resolve({ done: true, value: undefined });
    const waiting = new Promise<IteratorResult<LoopEvent, undefined>>((resolve) => {
      this.demand = resolve;
    });
    this.wake();
    return waiting;
  }

  private wake(): void {
    const waiting = this.resume;
    this.resume = [];
    for (const resolve of waiting) resolve();
  }
}
