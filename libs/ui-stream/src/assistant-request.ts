import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import { type DeclaredClientTool, declaredTools } from './declared-client-tool.js';
import { cutBefore, type MessageCut } from './message-cut.js';
import type { NamedAnswer } from './named-answer.js';
import { objectsIn } from './objects-in.js';

/**
 * A request of a client of these protocols, of which only the newest turn is read: the server has
 * the earlier ones.
 */
export interface AssistantRequest {
  /** The client's id of the thread, to use as the id of the conversation. */
  readonly threadId?: string;
  /** The text of the newest message if a user wrote it. */
  readonly prompt?: string;
  /**
   * The client's id of the newest message if a user wrote it, under which it is found again when
   * the user changes the words.
   */
  readonly messageId?: string;
  /**
   * The place of the answer that gives way to that of a question whose words the user has changed.
   */
  readonly cut?: MessageCut;
  /** The answers to what a run asked: results of calls that the client made, and decisions. */
  readonly answers: readonly NamedAnswer[];
  /** The messages of the client's state, with the new one, behind which the answer stands. */
  readonly messages: readonly JsonValue[];
  /**
   * The client's state beside its messages; absent where it sends none, as a page that was loaded
   * again.
   */
  readonly state?: JsonObject;
  /** The tools that the client says it has. */
  readonly tools: readonly DeclaredClientTool[];
}

/**
 * Reads the body of a request of the assistant transport: its commands are a message, or results of
 * tools. A result for a call that waits for an approval is a yes or no: `{ approved, reason? }`.
 *
 * @throws {TypeError} For a body that no such client sends.
 * @example
 * const { prompt, threadId } = readAssistantRequest(request.body);
 */
export function readAssistantRequest(body: JsonValue | undefined): AssistantRequest {
  if (!isJsonObject(body) || !isJsonList(body['commands']))
    throw new TypeError('The body must be an object with "commands", a list.');
  const commands = objectsIn(body['commands'], 'commands');
  const { messages, ...state } = isJsonObject(body['state']) ? body['state'] : {};
  const adding = commands.filter(
    ({ type, message }) => type === 'add-message' && isJsonObject(message),
  );
  const said = adding.flatMap(({ message }) => (isJsonObject(message) ? [message] : []));
  const { before, cut } = placeOf(isJsonList(messages) ? messages : [], adding);
  return {
    ...(typeof body['threadId'] === 'string' && { threadId: body['threadId'] }),
    ...questionIn(said, cut),
    answers: commands.flatMap(answerOf),
    messages: [...before, ...said],
    ...('state' in body && { state }),
    tools: declaredTools(body['tools']),
  };
}

/** The question of the messages of the user; none if they are empty. */
function questionIn(
  said: readonly JsonObject[],
  cut: MessageCut | undefined,
): Pick<AssistantRequest, 'prompt' | 'messageId' | 'cut'> {
  const prompt = said.map(textOf).join('\n');
  const messageId = said.at(-1)?.['id'];
  if (prompt === '') return {};
  return { prompt, ...(typeof messageId === 'string' && { messageId }), ...(cut && { cut }) };
}

/**
 * The messages before the new one: those behind a message whose words were changed go. The command
 * of a changed message has the id of the one that it stands for.
 */
function placeOf(
  messages: readonly JsonValue[],
  adding: readonly JsonObject[],
): { readonly before: readonly JsonValue[]; readonly cut?: MessageCut } {
  const source = adding.at(-1)?.['sourceId'];
  if (typeof source !== 'string') return { before: messages };
  const index = messages.findIndex((one) => isJsonObject(one) && one['id'] === source);
  const before = index === -1 ? messages : messages.slice(0, index);
  return { before, cut: cutBefore([...before.filter(isJsonObject), { id: source }]) };
}

function textOf(message: JsonObject): string {
  const parts = isJsonList(message['parts']) ? message['parts'].filter(isJsonObject) : [];
  return parts
    .flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : []))
    .join('');
}

function answerOf({ type, toolCallId, result, isError }: JsonObject): NamedAnswer[] {
  if (type !== 'add-tool-result' || typeof toolCallId !== 'string') return [];
  return [{ id: toolCallId, value: result ?? null, ...(isError === true && { isRefused: true }) }];
}
