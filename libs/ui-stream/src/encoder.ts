import {
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type LoopEvent,
  type RehearsalRequest,
} from '@toolloop/protocol';

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

/**
 * An answer as chat protocols give it: to what has this id, which is that of an approval, of a
 * question or of a call. The server still checks it against what it holds open.
 */
export interface NamedAnswer {
  readonly id: string;
  /** The answer, the result of a call, or `{ approved, reason? }` for an approval. */
  readonly value: JsonValue;
  /** Set where there is none. @default false */
  readonly isRefused?: boolean;
}

/**
 * Returns the id of a call for clients that name it without its run. The model's own id is unique
 * within a run alone: the yes to a call of one run would answer that of another.
 *
 * @example
 * const id = namedCall(runId, toolCallId);
 */
export function namedCall(runId: string, toolCallId: string): string {
  return `${runId}:${toolCallId}`;
}

/**
 * The results that a client shows already: those of calls that it made itself. A stream does not
 * show them again.
 */
export interface ShownResults {
  /** The answers that the client has just given. @default none */
  readonly given?: readonly NamedAnswer[];
}

/**
 * Tells whether a client has given this very result of a call, which it knows by the name of
 * {@link namedCall}.
 */
export function isGiven({ given = [] }: ShownResults, name: string, result: JsonValue): boolean {
  return given.some(
    ({ id, value }) => id === name && JSON.stringify(value) === JSON.stringify(result),
  );
}

/** A tool that a client says it has. */
export interface DeclaredClientTool {
  readonly id: string;
  readonly description?: string;
  readonly inputSchema?: JsonObject;
}

/** The list of a rehearsal in words. */
export function rehearsalSentence({ calls }: RehearsalRequest): string {
  const changes = calls.map(
    ({ preview, tool, args }) => preview?.sentence ?? `${tool} ${JSON.stringify(args)}`,
  );
  return `This was rehearsed and is not done yet: ${changes.join('; ')}`;
}

/** The text of a message, which is a text or a list of parts. */
export function contentText(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  const parts = isJsonList(content) ? content.filter(isJsonObject) : [];
  return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join('');
}

/**
 * The tools of a request: a list, also with each tool in `function`, or an object with the tools by
 * their names. What has no name, or is no tool, is left out; the server decides which of the others
 * it takes.
 */
export function declaredTools(given: JsonValue | undefined): DeclaredClientTool[] {
  if (isJsonList(given)) return given.filter(isJsonObject).flatMap(declaredTool);
  if (!isJsonObject(given)) return [];
  return Object.entries(given).flatMap(([name, tool]) =>
    isJsonObject(tool) ? declaredTool({ ...tool, name }) : [],
  );
}

function declaredTool({ function: inner, ...tool }: JsonObject): DeclaredClientTool[] {
  const {
    name: id,
    description,
    parameters,
    inputSchema = parameters,
  } = isJsonObject(inner) ? inner : tool;
  if (typeof id !== 'string') return [];
  return [
    {
      id,
      ...(typeof description === 'string' && { description }),
      ...(isJsonObject(inputSchema) && { inputSchema }),
    },
  ];
}

/**
 * The place at which a conversation is cut: by ids of runs and of messages of the user, and the
 * runs whose answers stay before it.
 */
export interface MessageCut {
  readonly at: readonly string[];
  readonly after: readonly string[];
}

const MOST_PLACES = 50;

/**
 * Makes the place of the answer to the last of the messages, which is a user's: by the id that the
 * client names, and that of the message. The answers before it stay. Their ids are those of their
 * runs.
 */
export function cutBefore(messages: readonly JsonObject[], named?: string): MessageCut {
  const ids = messages
    .filter(({ role }) => role === 'assistant')
    .flatMap(({ id }) => (typeof id === 'string' && id !== '' ? [id] : []));
  const last = messages.at(-1)?.['id'];
  const at = [named, last].filter((id) => typeof id === 'string' && id !== '').map(String);
  return { at: [...new Set(at)], after: ids.slice(-MOST_PLACES) };
}
