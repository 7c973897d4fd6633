import { Logger } from '@nestjs/common';
import type { LoopEvent, LoopEventBody, LoopEventSink } from '../protocol/loop-event.js';

/** Whoever reads a run's events. */
export interface EventReader {
  /** May return a promise: the run waits for it. */
  next(event: LoopEvent): void | Promise<void>;
  end(): void;
}

/** Stamps a run's events and hands them to the sinks and the reader, in order. Never throws: what fails is kept and told to `onFailure`. */
export class EventOutlet {
  private readonly logger = new Logger(EventOutlet.name);
  private readonly critical: readonly LoopEventSink[];
  private readonly others: readonly LoopEventSink[];
  private sequence = 0;
  private queue: Promise<void> = Promise.resolve();
  private reader: EventReader | undefined;
  private hasWarned = false;

  constructor(
    private readonly runId: string,
    sinks: readonly LoopEventSink[],
    private readonly onFailure: (error: unknown) => void,
  ) {
    this.critical = sinks.filter(({ critical }) => critical);
    this.others = sinks.filter(({ critical }) => !critical);
  }

  attach(reader: EventReader): void {
    this.reader = reader;
  }

  detach(): void {
    this.reader = undefined;
  }

  emit(body: LoopEventBody): void | Promise<void> {
    this.sequence += 1;
    const event: LoopEvent = { ...body, runId: this.runId, sequence: this.sequence, timestamp: new Date().toISOString() };
    if (this.critical.length === 0) return this.show(event);
    this.queue = this.queue.then(() => this.keepThenShow(event));
    return this.queue;
  }

  end(): void {
    this.reader?.end();
  }

  private async keepThenShow(event: LoopEvent): Promise<void> {
    try {
      for (const sink of this.critical) await sink.write(event);
    } catch (error) {
      this.onFailure(error);
    }
    await this.show(event);
  }

  private show(event: LoopEvent): void | Promise<void> {
    for (const sink of this.others) this.offer(sink, event);
    return this.reader?.next(event);
  }

  private offer(sink: LoopEventSink, event: LoopEvent): void {
    try {
      const written = sink.write(event);
      if (written) written.catch((error: unknown) => this.warn(sink, error));
    } catch (error) {
      this.warn(sink, error);
    }
  }

  private warn(sink: LoopEventSink, error: unknown): void {
    const name = sink.constructor.name;
    this.logger.warn(`${name} did not take an event of run ${this.runId}.`, error);
    if (this.hasWarned) return;
    this.hasWarned = true;
    void this.emit({ type: 'warning', code: 'sink_failed', message: `${name} does not take this run's events.` });
  }
}
