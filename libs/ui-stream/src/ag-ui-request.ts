import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { AgUiOptions } from './ag-ui-encoder.js';
import { type DeclaredClientTool, declaredTools } from './declared-client-tool.js';
import { valueIn } from './from-text.js';
import type { MessageCut } from './message-cut.js';
import { contentText, type NamedAnswer } from './named-answer.js';
import { objectsIn } from './objects-in.js';

/**
 * A request of an AG-UI client, of which only the newest turn is read: the server has the earlier
 * ones.
 */
export interface AgUiRequest extends Omit<AgUiOptions, 'given' | 'repeatsAfter'> {
  /** The text of the newest message if a user wrote it. */
  readonly prompt?: string;
  /**
   * The id of that message. A message that is sent again under its id is asked anew: the answer
   * that it has had gives way.
   */
  readonly messageId?: string;
  /** The place of that answer. */
  readonly cut?: MessageCut;
  /** The answers to interrupts, and the results of calls that the client made. */
  readonly answers: readonly NamedAnswer[];
  /** The tools that the client says it has. */
  readonly tools: readonly DeclaredClientTool[];
  /** The messages that the client has. */
  readonly messages: readonly JsonObject[];
}

/**
 * Reads the body of a request of an AG-UI client.
 *
 * @throws {TypeError} For a body that no such client sends.
 * @example
 * const { threadId, runId, prompt, answers } = readAgUiRequest(request.body);
 */
export function readAgUiRequest(body: JsonValue | undefined): AgUiRequest {
  if (
    !isJsonObject(body) ||
    typeof body['threadId'] !== 'string' ||
    typeof body['runId'] !== 'string' ||
    !isJsonList(body['messages'])
  )
    throw new TypeError(
      'The body must be an object with "threadId" and "runId", texts, and "messages", a list.',
    );
  const { threadId, runId } = body;
  const messages = objectsIn(body['messages'], 'messages');
  const resumed = objectsIn(body['resume'], 'resume').flatMap(resumedOf);
  const results = messages
    .slice(messages.findLastIndex(({ role }) => role !== 'tool') + 1)
    .flatMap(resultOf);
  const last = messages.at(-1);
  const answers = [...resumed, ...results];
  const isAsked = answers.length === 0 && last?.['role'] === 'user';
  const shownCalls = messages.flatMap(callIdsOf);
  return {
    threadId,
    runId,
    shownCalls,
    ...(isAsked && { prompt: contentText(last['content']), ...askedAnew(last) }),
    answers,
    tools: declaredTools(body['tools']),
    messages,
  };
}

/**
 * A client has no word for asking anew: it sends the messages up to the question. Only the very
 * same one is looked for, since a page may not show what was said in another.
 */
function askedAnew({ id }: JsonObject): Pick<AgUiRequest, 'messageId' | 'cut'> {
  return typeof id === 'string' && id !== '' ? { messageId: id, cut: { at: [id], after: [] } } : {};
}

function callIdsOf({ toolCalls }: JsonObject): string[] {
  const calls = isJsonList(toolCalls) ? toolCalls.filter(isJsonObject) : [];
  return calls.flatMap(({ id }) => (typeof id === 'string' ? [id] : []));
}

function resumedOf({ interruptId: id, status, payload }: JsonObject): NamedAnswer[] {
  if (typeof id !== 'string') return [];
  return [
    status === 'cancelled'
      ? { id, value: null, isRefused: true }
      : { id, value: answerIn(payload) },
  ];
}

/** The answer to a question is the payload itself, or in its `answer`. */
function answerIn(payload: JsonValue | undefined): JsonValue {
  if (isJsonObject(payload) && Object.keys(payload).length === 1 && 'answer' in payload)
    return payload['answer'] ?? null;
  return payload ?? null;
}

function resultOf({ toolCallId: id, content }: JsonObject): NamedAnswer[] {
  return typeof id === 'string' ? [{ id, value: valueIn(contentText(content)) }] : [];
}
