import type { LoopEvent } from '@toolloop/protocol';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { ConnectionLostError, ToolLoopHttpError } from './client.error.js';

/** The settings by which a lost stream is opened again. */
export interface ReconnectOptions {
  /** The milliseconds without a byte after which a stream counts as lost. The server sends a comment every 25 s. @default 60_000 */
  readonly idleMs?: number;
  /** The attempts without an event after which reading fails. @default 8 */
  readonly attempts?: number;
  /** The delay before the first attempt in milliseconds; it doubles with each, up to 30 s. A longer `Retry-After` of the server is obeyed. @default 250 */
  readonly delayMs?: number;
}

/** Opens the stream behind a sequence; 0 for the whole of it. */
export type OpenStream = (after: number) => Promise<Response>;

const LONGEST_DELAY_MS = 30_000;
/** Statuses that may pass: a limit was reached, or a proxy has no server right now. */
const PASSING = new Set([408, 425, 429, 502, 503, 504]);

/**
 * Reads the events of a run until it has ended, each once and in their order. A stream that breaks, falls silent or ends early is opened again behind the last event; an event
 * that is sent twice is shown once.
 *
 * @throws ConnectionLostError where no attempt of a series brought an event.
 * @throws ToolLoopHttpError where the server refuses the stream.
 */
export async function* followRun(
  open: OpenStream,
  after: number,
  { idleMs = 60_000, attempts = 8, delayMs = 250 }: ReconnectOptions,
  signal?: AbortSignal,
): AsyncGenerator<LoopEvent, void, undefined> {
  const reading: Reading = { last: after, failures: 0 };
  for (;;) {
    const { isOver, cause } = yield* readStretch(open, reading, idleMs, signal);
    if (isOver) return;
    reading.failures += 1;
    if (reading.failures > attempts) throw new ConnectionLostError(reading.last, cause);
    const delay = Math.min(delayMs * 2 ** (reading.failures - 1), LONGEST_DELAY_MS);
    await pause(Math.max(retryAfterOf(cause), delay), signal);
  }
}

/** The state of a reader: the sequence of the last event it has, and the attempts since then. */
interface Reading {
  last: number;
  failures: number;
}

/** The end of one connection: that of the run, or a loss. */
interface Stretch {
  readonly isOver: boolean;
  readonly cause?: unknown;
}

async function* readStretch(
  open: OpenStream,
  reading: Reading,
  idleMs: number,
  signal?: AbortSignal,
): AsyncGenerator<LoopEvent, Stretch, undefined> {
  try {
    const response = await open(reading.last);
    if (response.status === 204) return { isOver: true }; // the run has ended, and everything of it was shown
    for await (const event of readRun(response, reading.last, idleMs)) {
      Object.assign(reading, { last: event.sequence, failures: 0 });
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
export async function* readToEnd(response: Response, idleMs = 60_000, signal?: AbortSignal): AsyncGenerator<LoopEvent, void, undefined> {
  let last = 0;
  try {
    for await (const event of readRun(response, 0, idleMs)) {
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
  return event.type === 'run-end' && event.finishReason !== 'waiting';
}

/** The events behind a sequence, each once. */
async function* readRun({ body }: Response, after: number, idleMs: number): AsyncGenerator<LoopEvent, void, undefined> {
  const messages: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => void messages.push(message) });
  const decoder = new TextDecoder();
  let last = after;
  for await (const chunk of chunksOf(body, idleMs)) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    for (const { event, data } of messages.splice(0)) {
      if (event === 'error') throw new BrokenStreamError(data);
      const loopEvent = toLoopEvent(data);
      if (loopEvent.sequence <= last) continue;
      last = loopEvent.sequence;
      yield loopEvent;
    }
  }
}

/** The body is read no faster than its chunks are taken, and is cancelled where the reader stops early. */
async function* chunksOf(body: Response['body'], idleMs: number): AsyncGenerator<Uint8Array, void, undefined> {
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
    const timer = setTimeout(() => reject(new BrokenStreamError(`Nothing has arrived for ${idleMs} ms.`)), idleMs);
    void read.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** A stream that has fallen silent, that the server could not continue, or that holds what is no event of a run. */
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

/** Checks what every event carries. A type that this version does not know passes, so that an older client can skip it. */
function isLoopEvent(value: unknown): value is LoopEvent {
  if (typeof value !== 'object' || value === null) return false;
  if (!('type' in value && 'runId' in value && 'sequence' in value)) return false;
  return typeof value.type === 'string' && typeof value.runId === 'string' && Number.isSafeInteger(value.sequence);
}

/** All but a refusal may pass: a failure of the network is another error on each platform, and one in the middle of a body is any. */
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
      reject(signal?.reason instanceof Error ? signal.reason : new DOMException('The reading was stopped.', 'AbortError'));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
