import {
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type PendingReply,
} from '@toolloop/protocol';
import { type DeclaredClientTool, declaredTools } from './declared-client-tool.js';
import { cutBefore, type MessageCut } from './message-cut.js';
import { objectsIn } from './objects-in.js';

/**
 * A request of the AI SDK's `DefaultChatTransport`, of which only the newest message is read: the
 * server has the earlier ones.
 */
export interface UiMessageRequest {
  /** The client's id of the chat, to use as the id of the conversation. */
  readonly chatId: string;
  /**
   * The text of the newest message if a user wrote it. Absent where the client continues the
   * assistant's message.
   */
  readonly prompt?: string;
  /** The run that wrote the assistant's message that the client continues. */
  readonly runId?: string;
  /** The answers in that message. The server still checks each against what it holds open. */
  readonly replies: readonly PendingReply[];
  /** The ids of the calls that the message shows. */
  readonly shownCalls: readonly string[];
  /**
   * The client's id of the newest message if a user wrote it, under which it is found again when
   * the user changes the words.
   */
  readonly messageId?: string;
  /**
   * The place of the answer that gives way: to one that is asked for anew, or to that of a question
   * whose words the user has changed.
   */
  readonly cut?: MessageCut;
  /**
   * The tools that the client says it has: the AI SDK sends none by itself, assistant-ui and other
   * front ends on it do.
   */
  readonly tools: readonly DeclaredClientTool[];
}

/**
 * Reads the body of a request of an AI SDK client. Arguments, results and decisions of earlier
 * messages are ignored, since a client could have changed them.
 *
 * @throws {TypeError} For a body that no such client sends; the message says which member is wrong.
 * @example
 * const { prompt, runId, replies } = readUiMessageRequest(request.body);
 */
export function readUiMessageRequest(body: JsonValue | undefined): UiMessageRequest {
  if (!isJsonObject(body) || typeof body['id'] !== 'string' || !isJsonList(body['messages']))
    throw new TypeError(
      'The body must be an object with the members "id", a text, and "messages", a list.',
    );
  const last = body['messages'].at(-1);
  if (!isJsonObject(last) || !isJsonList(last['parts']))
    throw new TypeError('The last of "messages" must be an object with "parts", a list.');
  const parts = objectsIn(last['parts'], 'parts');
  const chat = {
    chatId: body['id'],
    replies: [],
    shownCalls: [],
    tools: declaredTools(body['tools']),
  };
  if (last['role'] === 'user')
    return {
      ...chat,
      prompt: parts.map(textOf).join(''),
      ...namesOf(last, body, body['messages']),
    };
  if (last['role'] !== 'assistant' || typeof last['id'] !== 'string')
    throw new TypeError(
      'The last of "messages" must have the role "user", or the role "assistant" and an "id".',
    );
  return {
    ...chat,
    runId: last['id'],
    replies: parts.flatMap(replyOf),
    shownCalls: parts.flatMap(callIdOf),
  };
}

/** The id of a question, and the place of the answer that gives way to that of it. */
function namesOf(
  { id }: JsonObject,
  body: JsonObject,
  messages: readonly JsonValue[],
): Pick<UiMessageRequest, 'messageId' | 'cut'> {
  const cut = cutIn(body, messages.filter(isJsonObject));
  return { ...(typeof id === 'string' && { messageId: id }), ...(cut && { cut }) };
}

/**
 * The place of the answer that gives way: after `regenerate`, or after a message whose words were
 * changed. The client sends that message under the id that it had, or as a new one whose metadata
 * name it by `sourceId`, as a page on assistant-ui can.
 */
function cutIn(
  { trigger, messageId }: JsonObject,
  messages: readonly JsonObject[],
): MessageCut | undefined {
  const source = sourceOf(messages.at(-1));
  if (source !== undefined && trigger !== 'regenerate-message') return cutBefore(messages, source);
  const named = typeof messageId === 'string' ? messageId : undefined;
  // An answer to what an earlier message asks is sent under the id of that message.
  const isEdited =
    named !== undefined &&
    trigger === 'submit-message' &&
    !messages.some(({ id, role }) => role === 'assistant' && id === named);
  if (trigger !== 'regenerate-message' && !isEdited) return undefined;
  return cutBefore(messages, named);
}

function sourceOf(message: JsonObject | undefined): string | undefined {
  const metadata = message?.['metadata'];
  const source = isJsonObject(metadata) ? metadata['sourceId'] : undefined;
  return typeof source === 'string' && source !== '' ? source : undefined;
}

function textOf({ type, text }: JsonObject): string {
  return type === 'text' && typeof text === 'string' ? text : '';
}

function callIdOf({ toolCallId }: JsonObject): string[] {
  return typeof toolCallId === 'string' ? [toolCallId] : [];
}

/**
 * The answer in one part: a decision about an approval, the result of a call that the client made,
 * or what the client has put into a question or a rehearsal of ours.
 */
function replyOf({
  type,
  id,
  data,
  state,
  approval,
  toolCallId,
  output,
  errorText,
}: JsonObject): PendingReply[] {
  if (typeof id === 'string' && isJsonObject(data))
    return type === 'data-question' ? answerIn(id, data) : verdictIn(id, type, data);
  if (state === 'approval-responded') return decisionOf(approval);
  if (typeof toolCallId !== 'string') return [];
  if (state === 'output-available' && output !== undefined) return [{ toolCallId, result: output }];
  if (state === 'output-error' && typeof errorText === 'string')
    return [{ toolCallId, error: errorText }];
  return [];
}

function answerIn(questionId: string, { answer, decision }: JsonObject): PendingReply[] {
  if (answer !== undefined) return [{ questionId, answer }];
  return decision === 'deny' || decision === 'withdraw' ? [{ questionId, decision }] : [];
}

function verdictIn(
  rehearsalId: string,
  type: JsonValue | undefined,
  { decision, reason }: JsonObject,
): PendingReply[] {
  if (
    type !== 'data-rehearsal' ||
    (decision !== 'approve' && decision !== 'deny' && decision !== 'withdraw')
  )
    return [];
  return [{ rehearsalId, decision, ...(typeof reason === 'string' && { reason }) }];
}

function decisionOf(approval: JsonValue | undefined): PendingReply[] {
  if (!isJsonObject(approval)) return [];
  const { id: approvalId, approved, reason } = approval;
  if (typeof approvalId !== 'string' || typeof approved !== 'boolean') return [];
  return [
    {
      approvalId,
      decision: approved ? 'approve' : 'deny',
      ...(typeof reason === 'string' && { reason }),
    },
  ];
}
