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
  const messages = body['messages'].filter(isJsonObject);
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

function resultsAtEnd(messages: readonly JsonObject[]): NamedAnswer[] {
  const start = messages.findLastIndex(({ role }) => role !== 'tool') + 1;
  return messages
    .slice(start)
    .flatMap(({ tool_call_id: id, content }) =>
      typeof id === 'string' ? [{ id, value: valueIn(contentText(content)) }] : [],
    );
}
