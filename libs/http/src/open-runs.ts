import { GoneException } from '@nestjs/common';
import type { RunHandle } from '@toolloop/core';
import type { FinishReason, JsonObject, JsonValue, LoopEvent, Run } from '@toolloop/protocol';

/**
 * The runs that this process reads for its clients. A run that waits, and is resumed, keeps its
 * events.
 */
export class OpenRuns {
  private readonly runs = new Map<string, OpenRun>();
  private readonly chats = new Map<string, OpenRun>();

  /** Keeps a run for as long as it is read, and a while longer. */
  add(handle: RunHandle, names: RunNames, limits: OpenRunLimits): OpenRun {
    const before = this.runs.get(handle.runId);
    const known = before && before.names.owner === names.owner ? before.events : [];
    before?.close();
    const run = new OpenRun(handle, names, limits, (one) => this.forget(one), known);
    this.runs.set(handle.runId, run);
    const chat = chatKey(names);
    if (chat !== undefined) this.chats.set(chat, run);
    return run;
  }

  /**
   * Finds a run of an owner; undefined for one that this process does not read, and for another's.
   */
  find(runId: string, owner: string | undefined): OpenRun | undefined {
    const run = this.runs.get(runId);
    return owner !== undefined && run?.names.owner === owner ? run : undefined;
  }

  /**
   * The runs of an owner as the routes show them, the newest first. Those that wait are left out:
   * they are stored.
   */
  of(owner: string | undefined): Run[] {
    if (owner === undefined) return [];
    const views = [...this.runs.values()]
      .filter(({ names }) => names.owner === owner)
      .map(({ view }) => view);
    return views.filter(({ status }) => status !== 'waiting').toReversed();
  }

  /** Finds the last run of an owner's chat. */
  ofChat(names: RunNames): OpenRun | undefined {
    const chat = chatKey(names);
    return chat === undefined ? undefined : this.chats.get(chat);
  }

  close(): void {
    for (const run of this.runs.values()) run.close();
  }

  private forget(run: OpenRun): void {
    if (this.runs.get(run.runId) === run) this.runs.delete(run.runId);
    const chat = chatKey(run.names);
    if (chat !== undefined && this.chats.get(chat) === run) this.chats.delete(chat);
  }
}

/** The limits of runs that are read over HTTP and are not durable. */
export interface OpenRunLimits {
  /** The milliseconds for which a run outlives its last reader; 0 ends it at once. */
  readonly reconnectMs: number;
  /** The bytes of a run's events that are kept for readers who come again, about. */
  readonly keptBytes: number;
  /**
   * Never waits for a reader, and outlives all of them: its log has what is not kept here. @default
   * false
   */
  readonly isDurable?: boolean;
}

/** The names under which a run is found again. */
export interface RunNames {
  /**
   * The actor and the tenant, as one text. Absent for an actor without an id, whose runs are found
   * by no one.
   */
  readonly owner?: string;
  /** The client's id of its chat. */
  readonly chatId?: string;
  /**
   * The state of the client behind which the run's answer stands, for a page that is loaded again
   * and has none.
   */
  readonly state?: ChatState;
}

/** The state of a client of the assistant transport. */
export type ChatState = JsonObject & { readonly messages: readonly JsonValue[] };

/**
 * A run that this process reads for its clients: its events are kept for a while, so that a client
 * that has lost its connection reads on.
 */
export class OpenRun {
  private readonly readers = new Set<RunReading>();
  private kept: LoopEvent[] = [];
  private keptBytes = 0;
  private failure: { readonly error: unknown } | undefined;
  private isOver = false;
  private isCancelled = false;
  private unreadBytes = 0;
  private wake: () => void = () => undefined;
  private timer: NodeJS.Timeout | undefined;
  private finishReason: FinishReason | undefined;
  private readonly createdAt = new Date().toISOString();
  private updatedAt = this.createdAt;
  private hasBegun = false;

  constructor(
    private readonly handle: RunHandle,
    readonly names: RunNames,
    private readonly limits: OpenRunLimits,
    private readonly forget: (run: OpenRun) => void,
    before: readonly LoopEvent[] = [],
  ) {
    this.restart([...before]);
  }

  get runId(): string {
    return this.handle.runId;
  }

  /** The events that are kept, for the run that continues this one. */
  get events(): readonly LoopEvent[] {
    return this.kept;
  }

  get hasEnded(): boolean {
    return this.isOver;
  }

  get lastSequence(): number {
    return this.kept.at(-1)?.sequence ?? 0;
  }

  get view(): Run {
    const { runId, lastSequence, createdAt, updatedAt, finishReason } = this;
    const status =
      finishReason === undefined ? 'running' : finishReason === 'waiting' ? 'waiting' : 'ended';
    return {
      runId,
      status,
      durable: false,
      ...(finishReason && { finishReason }),
      lastSequence,
      createdAt,
      updatedAt,
    };
  }

  /** Returns whether every event behind a sequence is still there. */
  has(after: number | undefined): boolean {
    const [first] = this.kept;
    return first === undefined || after === undefined || after >= first.sequence - 1;
  }

  /**
   * The events behind a sequence, those there are and those that come; without one those that are
   * new. A run starts with its first reader, and is read no faster than its fastest one.
   */
  read(after = this.kept.at(-1)?.sequence): AsyncIterableIterator<LoopEvent> {
    const reading = new RunReading(after, {
      next: (sequence) =>
        sequence === undefined
          ? this.kept[0]
          : this.kept[sequence + 1 - (this.kept[0]?.sequence ?? 0)],
      has: (sequence) => this.has(sequence),
      isOver: () => this.isOver,
      failure: () => this.failure,
      wants: () => this.wake(),
      left: (one) => this.left(one),
    });
    this.readers.add(reading);
    this.unreadBytes = 0;
    clearTimeout(this.timer);
    if (!this.hasBegun) {
      this.hasBegun = true;
      void this.pump();
    }
    this.wake();
    return reading;
  }

  cancel(reason?: string): void {
    this.isCancelled = true;
    this.handle.cancel(reason);
    this.wake();
  }

  close(): void {
    clearTimeout(this.timer);
  }

  private async pump(): Promise<void> {
    try {
      for await (const event of this.handle) {
        this.keep(event);
        for (const reader of this.readers) reader.told();
        while (!this.mayRead) await new Promise<void>((wake) => (this.wake = wake));
      }
    } catch (error) {
      this.failure = { error };
    }
    this.isOver = true;
    for (const reader of this.readers) reader.told();
    this.expire();
  }

  /**
   * A reader that has everything wants more. Without a reader the run continues as far as its
   * events can be kept.
   */
  private get mayRead(): boolean {
    if (this.isCancelled || this.limits.isDurable) return true;
    if (this.readers.size === 0) return this.unreadBytes < this.limits.keptBytes;
    return [...this.readers].some((reader) => reader.isWaiting);
  }

  private keep(event: LoopEvent): void {
    // A run that is resumed may say again what it had said last, and where something is missing,
    // nothing before it is of use.
    if (event.sequence <= this.lastSequence)
      this.restart(this.kept.filter(({ sequence }) => sequence < event.sequence));
    if (event.sequence !== this.lastSequence + 1) this.restart([]);
    const bytes = sizeOf(event);
    this.kept.push(event);
    this.keptBytes += bytes;
    if (this.readers.size === 0) this.unreadBytes += bytes;
    this.updatedAt = event.timestamp;
    if (event.type === 'run-end') this.finishReason = event.finishReason;
    if (this.keptBytes > this.limits.keptBytes) this.trim();
  }

  private restart(kept: LoopEvent[]): void {
    this.kept = kept;
    this.keptBytes = kept.reduce((bytes, event) => bytes + sizeOf(event), 0);
  }

  /**
   * Drops the oldest events, some at a time: to move a long list for each event would cost more
   * than it saves.
   */
  private trim(): void {
    const most = this.limits.keptBytes / 2;
    let [bytes, first] = [0, this.kept.length];
    for (const event of this.kept.toReversed()) {
      bytes += sizeOf(event);
      if (bytes > most) break;
      first -= 1;
    }
    this.restart(this.kept.slice(Math.min(first, this.kept.length - 1)));
  }

  private left(reader: RunReading): void {
    this.readers.delete(reader);
    if (this.readers.size === 0) this.expire();
    this.wake();
  }

  /** Without a reader, a run is cancelled and an ended one forgotten after a while. */
  private expire(): void {
    if (this.readers.size > 0 || this.limits.isDurable) return;
    clearTimeout(this.timer);
    const { reconnectMs } = this.limits;
    const over = (): void => {
      if (!this.isOver) this.cancel('The reader of the run has left.');
      this.forget(this);
    };
    if (reconnectMs === 0) over();
    else this.timer = setTimeout(over, reconnectMs).unref();
  }
}

/** Thrown to a reader that was slower than what is kept of its run. */
export class FallenBehindError extends GoneException {
  override readonly name = 'FallenBehindError';

  constructor() {
    super({ code: 'events_gone', message: 'The events behind this one are not kept any more.' });
  }
}

/** The run as one of its readers sees it. */
interface ReadRun {
  next(after: number | undefined): LoopEvent | undefined;
  has(after: number | undefined): boolean;
  isOver(): boolean;
  failure(): { readonly error: unknown } | undefined;
  wants(): void;
  left(reading: RunReading): void;
}

/** The reading of one client, each event once and in order. */
class RunReading implements AsyncIterableIterator<LoopEvent> {
  private hasLeft = false;
  private tell: (() => void) | undefined;

  constructor(
    /**
     * The sequence of the last event that was read; undefined before the first one, whichever that
     * is.
     */
    private after: number | undefined,
    private readonly run: ReadRun,
  ) {}

  /** `true` while it has everything and asks for more. */
  get isWaiting(): boolean {
    return this.tell !== undefined;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  told(): void {
    const { tell } = this;
    this.tell = undefined;
    tell?.();
  }

  async next(): Promise<IteratorResult<LoopEvent, undefined>> {
    for (;;) {
      if (this.hasLeft) return END;
      if (!this.run.has(this.after)) throw new FallenBehindError();
      const event = this.run.next(this.after);
      if (event) {
        this.after = event.sequence;
        return { done: false, value: event };
      }
      const failure = this.run.failure();
      if (failure) throw failure.error;
      if (this.run.isOver()) return END;
      await new Promise<void>((tell) => {
        this.tell = tell;
        this.run.wants();
      });
    }
  }

  return(): Promise<IteratorResult<LoopEvent, undefined>> {
    if (!this.hasLeft) {
      this.hasLeft = true;
      this.run.left(this);
      this.told();
    }
    return Promise.resolve(END);
  }
}

const END: IteratorResult<LoopEvent, undefined> = { done: true, value: undefined };

function chatKey({ owner, chatId }: RunNames): string | undefined {
  return owner === undefined || chatId === undefined ? undefined : JSON.stringify([owner, chatId]);
}

/** About the bytes of an event: most are short texts, whose frame is longer than they are. */
function sizeOf(event: LoopEvent): number {
  return event.type === 'text-delta' || event.type === 'reasoning-delta'
    ? event.text.length + FRAME_BYTES
    : JSON.stringify(event).length;
}

const FRAME_BYTES = 200;
