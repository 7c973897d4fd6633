import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import { type DeclaredClientTool, declaredTools } from './declared-client-tool.js';
import { valueIn } from './from-text.js';
import { contentText, type NamedAnswer } from './named-answer.js';

/** A request of a client of chat completions, as far as it is read. */
export interface ChatCompletionsRequest {
  readonly model: string;
  readonly isStreamed: boolean;
  readonly includeUsage: boolean;
  /** The whole conversation, as the client remembers it. It carries no authority. */
  readonly messages: readonly JsonObject[];
  /** The results of calls in the newest turn. Empty where a user spoke last. */
  readonly answers: readonly NamedAnswer[];
  /** The tools that the client says it has. */
  readonly tools: readonly DeclaredClientTool[];
}

/**
 * Reads the body of a chat completion.
 *
 * @throws {TypeError} For a body that no such client sends.
 * @example
 * const { messages, isStreamed } = readChatCompletionsRequest(request.body);
 */
export function readChatCompletionsRequest(body: JsonValue | undefined): ChatCompletionsRequest {
  if (
    !isJsonObject(body) ||
    typeof body['model'] !== 'string' ||
    !isJsonList(body['messages']) ||
    body['messages'].length === 0
  )
    throw new TypeError(
      'The body must be an object with "model", a text, and "messages", a list with at least one message.',
    );
  const messages = body['messages'].map(messageIn);
  for (const [name, { is, wanted }] of OPTIONAL) {
    const value = body[name] ?? undefined;
    if (value !== undefined && !is(value)) throw new TypeError(`"${name}" must be ${wanted}.`);
  }
  const options = isJsonObject(body['stream_options']) ? body['stream_options'] : {};
  return {
    model: body['model'],
    isStreamed: body['stream'] === true,
    includeUsage: options['include_usage'] === true,
    messages,
    answers: resultsAtEnd(messages),
    tools: declaredTools(body['tools']),
  };
}

/** The members that are read, each with its form. Other members of the API are left alone. */
const OPTIONAL = Object.entries({
  stream: { is: (value: JsonValue) => typeof value === 'boolean', wanted: 'true or false' },
  stream_options: { is: isJsonObject, wanted: 'an object' },
});

const ROLES = ['user', 'assistant', 'system', 'developer', 'tool', 'function'];

function messageIn(message: JsonValue, index: number): JsonObject {
  const at = `"messages[${index}]`;
  if (!isJsonObject(message)) throw new TypeError(`${at}" must be an object.`);
  const { role, content = null } = message;
  if (typeof role !== 'string' || !ROLES.includes(role))
    throw new TypeError(`${at}.role" must be one of ${ROLES.join(', ')}.`);
  if (content !== null && typeof content !== 'string' && !isJsonList(content))
    throw new TypeError(`${at}.content" must be a text or a list of parts.`);
  return message;
}

function resultsAtEnd(messages: readonly JsonObject[]): NamedAnswer[] {
  const start = messages.findLastIndex(({ role }) => role !== 'tool') + 1;
  return messages
    .slice(start)
    .flatMap(({ tool_call_id: id, content }) =>
      typeof id === 'string' ? [{ id, value: valueIn(contentText(content)) }] : [],
    );
}
