import { describe, expect, it } from '@jest/globals';
import type { JsonValue } from '@toolloop/protocol';
import { readChatCompletionsRequest } from '@toolloop/ui-stream';

const hello = { role: 'user', content: 'Hello.' };
const bodyWith = (more: Readonly<Record<string, JsonValue>>): JsonValue => ({
  model: 'desk',
  messages: [hello],
  ...more,
});

describe('the request of a chat completion', () => {
  it.each<readonly [Readonly<Record<string, JsonValue>>, string]>([
    [{ messages: [5] }, '"messages[0]" must be an object.'],
    [{ messages: [hello, null] }, '"messages[1]" must be an object.'],
    [{ messages: [{ content: 'Hello.' }] }, '"messages[0].role" must be one of user, assistant'],
    [{ messages: [{ role: 'foo', content: 'x' }] }, '"messages[0].role" must be one of user'],
    [
      { messages: [{ role: 'user', content: 5 }] },
      '"messages[0].content" must be a text or a list of parts.',
    ],
    [{ stream: 'yes' }, '"stream" must be true or false.'],
    [{ stream_options: 5 }, '"stream_options" must be an object.'],
    [{ tools: 5 }, '"tools" must be a list of objects.'],
    [{ tools: [5] }, '"tools" must be a list of objects.'],
  ])('is refused at the place of its mistake if it has %j', (more, problem) => {
    expect(() => readChatCompletionsRequest(bodyWith(more))).toThrow(TypeError);
    expect(() => readChatCompletionsRequest(bodyWith(more))).toThrow(problem);
  });

  it('may leave out, or give as null, what is optional', () => {
    const nulls = { stream: null, stream_options: null, tools: null, n: 3 };
    const remembered = [hello, { role: 'assistant', content: null, tool_calls: [] }, hello];
    expect(readChatCompletionsRequest(bodyWith({ ...nulls, messages: remembered }))).toMatchObject({
      isStreamed: false,
      includeUsage: false,
      tools: [],
    });
  });
});
