import {
  isJsonList,
  isJsonObject,
  type JsonValue,
  type RehearsalRequest,
} from '@toolloop/protocol';

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
