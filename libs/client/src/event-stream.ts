import type { LoopEvent, Run } from '@toolloop/protocol';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { ConnectionLostError, ToolLoopHttpError } from './client.error.js';

/** The settings by which a lost stream is opened again. */
export interface ReconnectOptions {
  /**
   * The milliseconds without a byte after which a stream counts as lost. The server sends a comment
   * every 25 s. @default 60_000
   */
  readonly idleMs?: number;
  /** The attempts without an event after which reading fails. @default 8 */
  readonly attempts?: number;
  /**
   * The delay before the first attempt in milliseconds; it doubles with each, up to 30 s. A longer
   * `Retry-After` of the server is obeyed. @default 250
   */
  readonly delayMs?: number;
}

/**
 * The times at which to look whether a run that waits has moved, such as those of `setInterval` of
 * `node:timers/promises`. It is left once it has, or the signal is aborted.
 */
export type LookTimes = (signal?: AbortSignal) => AsyncIterable<unknown>;

/** Options of a reader that may wait for long. */
export interface WaitOptions {
  /**
   * Leaves the connection while a durable run waits for an answer, and looks at these times whether
   * it has moved; then it reads on. A browser has six connections for each host over HTTP/1.1, so
   * that the seventh page with a run that waits would not load.
   *
   * @default the connection stays open
   */
  readonly leaveWhenWaiting?: LookTimes;
}

/** Options of a question. */
export interface AskOptions extends WaitOptions {
  /**
   * Lets the run outlive the connection: it is read on after a loss, and leaving the stream does
   * not stop it. @default false
   */
  readonly durable?: boolean;
  /**
   * The name of the question: one that is asked again under its name leads to the same run.
   * @default a random one
   */
  readonly requestId?: string;
  readonly signal?: AbortSignal;
}

/** Options of reading a run. */
export interface ReadOptions extends WaitOptions {
  /** The sequence of the last event that is known already. @default 0 */
  readonly after?: number;
  readonly signal?: AbortSignal;
}

/** Opens the stream behind a sequence; 0 for the whole of it. */
export type OpenStream = (after: number) => Promise<Response>;

/** The terms on which a run is read. */
export interface FollowTerms extends ReconnectOptions {
  /**
   * Resolves once a run that waits may have events behind a sequence. Its connection is closed
   * meanwhile. @default it stays open
   */
  readonly untilMoved?: ((after: number) => Promise<void>) | undefined;
  readonly signal?: AbortSignal | undefined;
}

const LONGEST_DELAY_MS = 30_000;
/** Statuses that may pass: a limit was reached, or a proxy has no server right now. */
const PASSING = new Set([408, 425, 429, 502, 503, 504]);

/**
 * Reads the events of a run until it has ended, each once and in their order. A stream that breaks,
 * falls silent or ends early is opened again behind the last event; an event that is sent twice is
 * shown once.
 *
 * @throws ConnectionLostError where no attempt of a series brought an event.
 * @throws ToolLoopHttpError where the server refuses the stream.
 */
export async function* followRun(
  open: OpenStream,
  after: number,
  terms: FollowTerms = {},
): AsyncGenerator<LoopEvent, void, undefined> {
  const { attempts = 8, delayMs = 250, untilMoved, signal } = terms;
  const reading: Reading = { last: after, failures: 0, isWaiting: false };
  for (;;) {
    const { isOver, cause } = yield* readStretch(open, reading, terms);
    if (isOver) return;
    if (reading.isWaiting && untilMoved) {
      reading.isWaiting = false;
      await untilMoved(reading.last);
      continue;
    }
    reading.failures += 1;
    if (reading.failures > attempts) throw new ConnectionLostError(reading.last, cause);
    const delay = Math.min(delayMs * 2 ** (reading.failures - 1), LONGEST_DELAY_MS);
    await pause(Math.max(retryAfterOf(cause), delay), signal);
  }
}

/**
 * Looks at each of these times whether a run has events behind a sequence. Its status says nothing
 * of that: it may be another a moment earlier. One that is not durable is not waited for, since it
 * says no more before it is resumed.
 *
 * @throws ToolLoopHttpError where the server refuses to show the run.
 */
export async function lookUntilMoved(
  look: () => Promise<Run>,
  after: number,
  times: AsyncIterable<unknown>,
): Promise<void> {
  const iterator = times[Symbol.asyncIterator]();
  try {
    while ((await iterator.next()).done !== true) {
      const run = await look().catch((error: unknown) => {
        if (!mayPass(error)) throw error;
      });
      if (run && (run.lastSequence > after || run.status === 'ended' || !run.durable)) return;
    }
  } finally {
    await iterator.return?.();
  }
}

/**
 * The state of a reader: the sequence of the last event it has, the attempts since then, and
 * whether that event says that the run waits.
 */
interface Reading {
  last: number;
  failures: number;
  isWaiting: boolean;
}

/** The end of one connection: that of the run, or a loss. */
interface Stretch {
  readonly isOver: boolean;
  readonly cause?: unknown;
}

async function* readStretch(
  open: OpenStream,
  reading: Reading,
  { idleMs = 60_000, untilMoved, signal }: FollowTerms,
): AsyncGenerator<LoopEvent, Stretch, undefined> {
  try {
    const response = await open(reading.last);
    // the run has ended, and everything of it was shown
    if (response.status === 204) return { isOver: true };
    for await (const event of readRun(response, {
      after: reading.last,
      idleMs,
      isLeftWaiting: untilMoved !== undefined,
    })) {
      Object.assign(reading, { last: event.sequence, failures: 0, isWaiting: isWait(event) });
      yield event;
      if (endsRun(event)) return { isOver: true };
      signal?.throwIfAborted(); // what had arrived before is not shown any more
    }
    return { isOver: false };
  } catch (cause) {
    signal?.throwIfAborted();
    if (!mayPass(cause)) throw cause;
    return { isOver: false, cause };
  }
}

/**
 * Reads the events of a stream that cannot be opened again, up to and including its `run-end`.
 *
 * @throws ConnectionLostError where it ends without one.
 */
export async function* readToEnd(
  response: Response,
  idleMs = 60_000,
  signal?: AbortSignal,
): AsyncGenerator<LoopEvent, void, undefined> {
  let last = 0;
  try {
    for await (const event of readRun(response, { after: 0, idleMs })) {
      last = event.sequence;
      yield event;
      if (event.type === 'run-end') return;
      signal?.throwIfAborted();
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw new ConnectionLostError(last, error);
  }
  throw new ConnectionLostError(last, undefined);
}

/** A run that waits for a person ends its stretch with a `run-end` too, and continues later. */
function endsRun(event: LoopEvent): boolean {
  return event.type === 'run-end' && !isWait(event);
}

function isWait(event: LoopEvent): boolean {
  return event.type === 'run-end' && event.finishReason === 'waiting';
}

interface StretchTerms {
  readonly after: number;
  readonly idleMs: number;
  /**
   * Leaves where the last event that has arrived is a wait: what came after an older one arrives
   * with it. @default false
   */
  readonly isLeftWaiting?: boolean;
}

/** The events behind a sequence, each once. */
async function* readRun(
  { body }: Response,
  { after, idleMs, isLeftWaiting = false }: StretchTerms,
): AsyncGenerator<LoopEvent, void, undefined> {
  const messages: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => void messages.push(message) });
  const decoder = new TextDecoder();
  let last = after;
  let isWaiting = false;
  for await (const chunk of chunksOf(body, idleMs)) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    for (const { event, data } of messages.splice(0)) {
      if (event === 'error') throw new BrokenStreamError(data);
      const loopEvent = toLoopEvent(data);
      if (loopEvent.sequence <= last) continue;
      last = loopEvent.sequence;
      isWaiting = isWait(loopEvent);
      yield loopEvent;
    }
    if (isWaiting && isLeftWaiting) return;
  }
}

/**
 * The body is read no faster than its chunks are taken, and is cancelled where the reader stops
 * early.
 */
async function* chunksOf(
  body: Response['body'],
  idleMs: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body?.getReader();
  try {
    for (;;) {
      const chunk = reader && (await beforeSilence(reader.read(), idleMs));
      if (!chunk || chunk.done) return;
      yield chunk.value;
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
}

function beforeSilence<Result>(read: Promise<Result>, idleMs: number): Promise<Result> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new BrokenStreamError(`Nothing has arrived for ${idleMs} ms.`)),
      idleMs,
    );
    void read.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/**
 * A stream that has fallen silent, that the server could not continue, or that holds what is no
 * event of a run.
 */
class BrokenStreamError extends Error {
  override readonly name = 'BrokenStreamError';
}

function toLoopEvent(data: string): LoopEvent {
  const value = parsed(data);
  if (isLoopEvent(value)) return value;
  throw new BrokenStreamError(`This is no event of a run: ${data.slice(0, 200)}`);
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

/**
 * Checks what every event carries. A type that this version does not know passes, so that an older
 * client can skip it.
 */
function isLoopEvent(value: unknown): value is LoopEvent {
  if (typeof value !== 'object' || value === null) return false;
  if (!('type' in value && 'runId' in value && 'sequence' in value)) return false;
  return (
    typeof value.type === 'string' &&
    typeof value.runId === 'string' &&
    Number.isSafeInteger(value.sequence)
  );
}

/**
 * All but a refusal may pass: a failure of the network is another error on each platform, and one
 * in the middle of a body is any.
 */
function mayPass(error: unknown): boolean {
  return !(error instanceof ToolLoopHttpError) || PASSING.has(error.status);
}

function retryAfterOf(error: unknown): number {
  return error instanceof ToolLoopHttpError ? (error.retryAfterMs ?? 0) : 0;
}

function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = (): void => {
      clearTimeout(timer);
      reject(
        signal?.reason instanceof Error
          ? signal.reason
          : new DOMException('The reading was stopped.', 'AbortError'),
      );
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
