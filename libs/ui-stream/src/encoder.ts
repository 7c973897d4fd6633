import type { LoopEvent } from '@toolloop/protocol';

/**
 * Writes the events of one stream in a protocol, as the text that is sent. It holds what that
 * stream has shown so far, so each stream has an encoder of its own; nothing in it depends on time
 * or on a connection.
 *
 * @example
 * const encoder = sseEncoder();
 * for await (const event of run) response.write(encoder.encode(event));
 * response.end(encoder.end());
 */
export interface EventEncoder {
  /** The headers of the answer, in small letters. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * A text that clients skip, for a silence in which proxies would close the connection; empty
   * where the protocol has none.
   */
  readonly keepAlive: string;
  /** The text of an event; empty for one that the protocol does not show. */
  encode(event: LoopEvent): string;
  /** The text behind the last event. */
  end(): string;
}

/** The headers of every stream of server-sent events. */
export const SSE_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

/** A comment of server-sent events. */
export const COMMENT = ':\n\n';

/**
 * Writes one frame of server-sent events without a name and an id, since several clients take no
 * others.
 */
export function frame(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** Options of {@link sseEncoder}. */
export interface SseEncoderOptions {
  /**
   * Puts the run's id before the sequence in `id`, as `run.7`, for a stream whose address does not
   * name its run. @default false
   */
  readonly namesRun?: boolean;
}

/**
 * Writes events as they are: the event as JSON in `data`, its sequence in `id`, and no name, so
 * that `EventSource.onmessage` receives them all.
 *
 * @example
 * const encoder = sseEncoder();
 */
export function sseEncoder({ namesRun = false }: SseEncoderOptions = {}): EventEncoder {
  return {
    headers: SSE_HEADERS,
    keepAlive: COMMENT,
    encode: (event) => `id: ${namesRun ? `${event.runId}.` : ''}${event.sequence}\n${frame(event)}`,
    end: () => '',
  };
}

/** The last event that a client has seen of a stream. */
export interface SeenEvent {
  /** Absent where the stream did not name its run. */
  readonly runId?: string;
  readonly sequence: number;
}

/**
 * Reads a `Last-Event-ID`. Undefined for anything that no stream of ours has sent.
 *
 * @example
 * const seen = readEventId(request.headers['last-event-id']);
 */
export function readEventId(text: string): SeenEvent | undefined {
  const [, runId, digits] = /^(?:([\w-]{1,64})\.)?(\d{1,9})$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  return { ...(runId !== undefined && { runId }), sequence: Number(digits) };
}
