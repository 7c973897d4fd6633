import type { MessageEvent } from '@nestjs/common';
import type { LoopEvent } from '@toolloop/protocol';
import { Observable, type OperatorFunction } from 'rxjs';

/**
 * Converts a run's events for `@Sse()`: the event as JSON in `data`, its sequence in `id`, and no
 * `type`, so that `EventSource.onmessage` receives them all.
 *
 * An EventSource reconnects after a normal end as well as after a failure, with the last id it saw
 * in `Last-Event-ID`, and a controller that ignores this starts the run once more. A client should
 * close on `run-end`; a controller answers 204 to a request that carries `Last-Event-ID`, which
 * stops the client:
 *
 * ```ts no-run
 * if (lastEventId !== undefined)
 *   throw new HttpException('The run is over.', HttpStatus.NO_CONTENT);
 * ```
 *
 * Errors of the source pass through as they are; a run's events have none after `run-start`.
 * Unsubscribing ends the keep-alive and the source.
 *
 * @example
 * this.loop.stream({ prompt, actor, tenant }).pipe(toSse());
 */
export function toSse(options: SseOptions = {}): OperatorFunction<LoopEvent, MessageEvent> {
  return toFrames((event) => [{ id: String(event.sequence), data: event }], options);
}

/** Options of {@link toSse}. */
export interface SseOptions {
  /**
   * The milliseconds without an event after which a comment is sent, so that proxies keep the
   * connection; 0 for none. @default 25_000
   */
  readonly keepAliveMs?: number;
}

/** The longest delay of a timer in Node.js; a longer one would fire at once. */
const LONGEST_TIMER_MS = 2_147_483_647;

/**
 * Converts each event into the frames of a protocol, and sends a comment after a silence. `end` are
 * the frames after the last event.
 */
export function toFrames(
  encode: (event: LoopEvent) => readonly MessageEvent[],
  { keepAliveMs = 25_000 }: SseOptions,
  end: readonly MessageEvent[] = [],
): OperatorFunction<LoopEvent, MessageEvent> {
  return (events$) =>
    new Observable((subscriber) => {
      const timer = every(keepAliveMs, () => subscriber.next({ comment: '' }));
      subscriber.add(() => clearTimeout(timer));
      subscriber.add(
        events$.subscribe({
          next: (event) => {
            timer?.refresh();
            for (const frame of encode(event)) subscriber.next(frame);
          },
          error: (error) => subscriber.error(error),
          complete: () => {
            for (const frame of end) subscriber.next(frame);
            subscriber.complete();
          },
        }),
      );
    });
}

/** Starts a timer that repeats, and that `refresh()` restarts. */
function every(milliseconds: number, act: () => void): NodeJS.Timeout | undefined {
  if (!(milliseconds > 0)) return undefined;
  const timer = setTimeout(
    () => {
      timer.refresh();
      act();
    },
    Math.min(milliseconds, LONGEST_TIMER_MS),
  );
  return timer;
}
