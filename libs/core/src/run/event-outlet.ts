import {
  type LoopEvent,
  type LoopEventBody,
  type LoopEventSink,
  type RunIdentity,
  timestampOfNow,
} from '@toolloop/protocol';
import type { Told } from '../call/emit-event.js';
import { Interruption, withinTime } from '../contracts/interruption.js';
import { untilRunCloses } from '../call/store-calls.js';
import { Logger } from '../findings/logger.js';

/**
 * Stamps a run's events and hands them to the sinks and the reader, in order. Never throws: what
 * fails is kept and told to `onFailure`.
 */
export class EventOutlet {
  private readonly logger = new Logger(EventOutlet.name);
  private critical: readonly LoopEventSink[];
  private readonly others: readonly LoopEventSink[];
  private sequence: number;
  private queue: Promise<void> = Promise.resolve();
  private reader: EventReader | undefined;
  /**
   * Shown before the next event, so that the sequence is never out of order and nothing follows the
   * `run-end`.
   */
  private warning: LoopEventBody | undefined;
  private hasWarned = false;

  constructor(
    private readonly run: RunIdentity,
    sinks: readonly LoopEventSink[],
    /** Returns true for a sink that was only slow, and is to have the events that follow. */
    private readonly onFailure: (error: unknown, sink: LoopEventSink) => boolean,
    /** The sequence of the last event of the part of the run before. */
    after = 0,
    /**
     * Asked once a critical sink has answered: the events of a run that continues elsewhere are
     * told there.
     */
    private readonly isShown: () => boolean = () => true,
  ) {
    this.sequence = after;
    this.critical = sinks.filter(({ critical }) => critical);
    this.others = sinks.filter(({ critical }) => !critical);
  }

  get lastSequence(): number {
    return this.sequence;
  }

  attach(reader: EventReader): void {
    this.reader = reader;
  }

  detach(): void {
    this.reader = undefined;
  }

  emit(body: LoopEventBody): Told {
    const { warning } = this;
    this.warning = undefined;
    if (warning) void this.send(warning);
    return this.send(body);
  }

  end(): void {
    this.reader?.end();
  }

  refuse(error: unknown): void {
    this.reader?.refuse(error);
  }

  private send(body: LoopEventBody): Told {
    this.sequence += 1;
    const event: LoopEvent = {
      ...body,
      runId: this.run.runId,
      sequence: this.sequence,
      timestamp: timestampOfNow(),
    };
    if (this.critical.length === 0) return this.show(event);
    this.queue = this.queue.then(() => this.keepThenShow(event));
    return this.queue;
  }

  private async keepThenShow(event: LoopEvent): Promise<void> {
    for (const sink of this.critical) await this.keep(sink, event);
    if (this.isShown()) await this.show(event);
  }

  /**
   * A critical sink that has not taken an event in its time fails, and is not asked again: it must
   * not keep a run from ending.
   */
  private async keep(sink: LoopEventSink, event: LoopEvent): Promise<void> {
    try {
      const written = sink.write(event, this.run);
      if (written)
        await untilRunCloses(
          `Event ${event.sequence} of run ${this.run.runId}`,
          withinTime(Promise.resolve(written), sink.longestMs),
        );
    } catch (error) {
      if (this.onFailure(error, sink)) return;
      if (error instanceof Interruption)
        this.critical = this.critical.filter((other) => other !== sink);
      this.logger.error(
        `${sink.constructor.name} failed on event ${event.sequence}, ${event.type}, of run ${this.run.runId}.`,
        error,
      );
    }
  }

  private show(event: LoopEvent): Told {
    for (const sink of this.others) this.offer(sink, event);
    return this.reader?.next(event);
  }

  private offer(sink: LoopEventSink, event: LoopEvent): void {
    try {
      const written = sink.write(event, this.run);
      if (written) void Promise.resolve(written).catch((error: unknown) => this.warn(sink, error));
    } catch (error) {
      this.warn(sink, error);
    }
  }

  private warn(sink: LoopEventSink, error: unknown): void {
    const name = sink.constructor.name;
    this.logger.warn(`${name} failed on an event of run ${this.run.runId}.`, error);
    if (this.hasWarned) return;
    this.hasWarned = true;
    this.warning = {
      type: 'warning',
      code: 'sink_failed',
      message: `${name} does not take this run's events.`,
    };
  }
}

/** The reader of a run's events. */
export interface EventReader {
  next(event: LoopEvent): Told;
  end(): void;
  /** Instead of the first event: it is no run of theirs. */
  refuse(error: unknown): void;
}

type EventForPeople = LoopEventBody & {
  readonly type: 'approval-request' | 'approval-decision' | 'pending-request' | 'pending-answer';
};

const FOR_PEOPLE: ReadonlySet<string> = new Set<EventForPeople['type']>([
  'approval-request',
  'approval-decision',
  'pending-request',
  'pending-answer',
]);

/** Tells whether a person acts on an event. */
export function isForPeople(event: LoopEventBody): event is EventForPeople {
  return FOR_PEOPLE.has(event.type);
}
