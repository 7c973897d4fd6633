import {
  InvalidRequestError,
  type LoopEvent,
  type LoopEventBody,
  type LoopEventSink,
  type Message,
  type RunIdentity,
  timestampOfNow,
} from '@toolloop/protocol';
import type { LeftInput } from '../contracts/conversation.js';
import type { LoopRequest } from '../contracts/loop-request.js';
import type { RunInputEntry } from '../contracts/stores.js';
import { Interruption, withinTime } from '../execution/call-failure.js';
import { untilRunCloses } from '../execution/store-calls.js';
import { Logger } from '../findings/logger.js';
import { list, NUMBER, object, optional, TEXT } from '../schema/saved-form.js';
import { asSaid } from './loop-state.js';

/** The reader of a run's events. */
export interface EventReader {
  /** May return a promise: the run waits for it. */
  next(event: LoopEvent): void | Promise<void>;
  end(): void;
  /** Instead of the first event: it is no run of theirs. */
  refuse(error: unknown): void;
}

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

  emit(body: LoopEventBody): void | Promise<void> {
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

  private send(body: LoopEventBody): void | Promise<void> {
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

  private show(event: LoopEvent): void | Promise<void> {
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

type Pulled = IteratorResult<LoopEvent, undefined>;

interface Demand {
  readonly meet: (pulled: Pulled) => void;
  readonly refuse: (error: unknown) => void;
}

const END: Pulled = { done: true, value: undefined };

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

  next(event: LoopEvent): void | Promise<void> {
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

/** The inputs of a run that continues elsewhere. */
export interface SavedInputs {
  /** The number of inputs in the transcript. */
  readonly taken: number;
  /** Those given later, in their order. */
  readonly waiting: readonly string[];
  /** The ids of all that other runs of the conversation have said here. @default none */
  readonly from?: readonly string[];
}

export const SAVED_INPUTS = object<SavedInputs>({
  taken: NUMBER,
  waiting: list(TEXT),
  from: optional(list(TEXT)),
});

/** A message of the user; `from` is the id under which another run has left it. */
type GivenInput = Pick<RunInputEntry, 'content' | 'from'>;

/** Keeps an input, by its number in the run: from 1. */
export type InputKeeper = (input: Omit<RunInputEntry, 'type' | 'key'>) => Promise<void>;

/**
 * The messages that the user adds during a run. It is closed in the very moment in which the run is
 * decided, so that nothing said is lost.
 */
export class RunInputs {
  private waiting: GivenInput[];
  /** The words of other runs, by their ids, until they are kept. */
  private readonly left = new Map<string, Promise<unknown>>();
  private closed = false;
  private takenBefore: number;
  private kept: number;
  private keep: InputKeeper | undefined;

  constructor(
    { taken, waiting, from = [] }: SavedInputs = { taken: 0, waiting: [] },
    private readonly options: Pick<LoopRequest, 'labels'> = {},
  ) {
    this.takenBefore = taken;
    this.waiting = waiting.map((content) => ({ content }));
    for (const id of from) this.left.set(id, Promise.resolve());
    this.kept = this.given;
  }

  get isClosed(): boolean {
    return this.closed;
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  /** The number of inputs in the transcript. */
  get taken(): number {
    return this.takenBefore;
  }

  /** From here on each is kept as soon as it is given, and at once those that were given before. */
  keepBy(keep: InputKeeper): void {
    this.keep = keep;
    this.keepInTime();
  }

  /** Throws `InvalidRequestError` for what is no text, or says nothing. */
  add(content: string): void {
    assertSaid(content);
    this.waiting.push({ content });
    this.keepInTime();
  }

  /**
   * Takes what another run has left, once however often, and resolves when it is kept; to false
   * where it takes no more, or is to keep it and cannot yet.
   */
  async takeLeft({ id, texts }: LeftInput, mustBeKept: boolean): Promise<boolean> {
    if (this.closed || (mustBeKept && !this.keep)) return false;
    try {
      if (!this.left.has(id)) {
        texts.forEach(assertSaid);
        this.waiting.push(...texts.map((content) => ({ content, from: id })));
        this.left.set(id, this.keepNew());
      }
      await this.left.get(id);
      return true;
    } catch {
      return false;
    }
  }

  /** Those that no model has read; from here on they are in the transcript. */
  take(): readonly Message[] {
    const { waiting } = this;
    this.takenBefore = this.given;
    this.waiting = [];
    return asSaid(
      waiting.map(({ content }) => ({ role: 'user', content })),
      this.options,
    );
  }

  /** Accepts no more. */
  close(): void {
    this.closed = true;
  }

  /** Returns the inputs with which a waiting run is resumed. */
  save(): SavedInputs {
    const from = [...this.left.keys()];
    return {
      taken: this.takenBefore,
      waiting: this.waiting.map(({ content }) => content),
      ...(from.length > 0 && { from }),
    };
  }

  private get given(): number {
    return this.takenBefore + this.waiting.length;
  }

  private async keepNew(): Promise<void> {
    const { keep } = this;
    if (!keep) return;
    const added = this.waiting.slice(this.kept - this.takenBefore);
    await Promise.all(
      added.map(({ content, from }) =>
        keep({ number: (this.kept += 1), content, ...(from !== undefined && { from }) }),
      ),
    );
  }

  /** Keeps them, unless the run is another process's by then: it is not ended for that here. */
  private keepInTime(): void {
    void this.keepNew().catch(() => undefined);
  }
}

/** Throws `InvalidRequestError` for what is no text, or says nothing. */
function assertSaid(content: unknown): void {
  if (typeof content !== 'string' || content.trim() === '')
    throw new InvalidRequestError('invalid_request', 'The message is empty, or not a string.');
}
