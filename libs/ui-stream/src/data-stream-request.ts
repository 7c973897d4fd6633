import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { AssistantRequest } from './assistant-request.js';
import { declaredTools } from './declared-client-tool.js';
import type { NamedAnswer } from './named-answer.js';
import { objectsIn } from './objects-in.js';

/**
 * Reads the body of a request of a data stream client: `messages` in the form of assistant-ui's
 * core, the last of which is read.
 *
 * @throws {TypeError} For a body that no such client sends.
 * @example
 * const { prompt } = readDataStreamRequest(request.body);
 */
export function readDataStreamRequest(body: JsonValue | undefined): AssistantRequest {
  if (!isJsonObject(body) || !isJsonList(body['messages']))
    throw new TypeError('The body must be an object with "messages", a list.');
  const last = objectsIn(body['messages'], 'messages').at(-1);
  if (!last) throw new TypeError('"messages" must hold at least one message.');
  const thread = {
    ...(typeof body['threadId'] === 'string' && { threadId: body['threadId'] }),
    tools: declaredTools(body['tools']),
  };
  const content = typeof last['content'] === 'string' ? [] : objectsIn(last['content'], 'content');
  if (last['role'] === 'user') {
    const prompt =
      typeof last['content'] === 'string'
        ? last['content']
        : content.map(({ text }) => (typeof text === 'string' ? text : '')).join('');
    return { ...thread, prompt, answers: [], messages: [] };
  }
  return {
    ...thread,
    answers: last['role'] === 'tool' ? content.flatMap(toolResultOf) : [],
    messages: [],
  };
}

function toolResultOf({ type, toolCallId, output, result }: JsonObject): NamedAnswer[] {
  if (type !== 'tool-result' || typeof toolCallId !== 'string') return [];
  const value = isJsonObject(output) && 'value' in output ? output['value'] : (output ?? result);
  return value === undefined ? [] : [{ id: toolCallId, value }];
}
