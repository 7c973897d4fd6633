import { describe, expect, it } from '@jest/globals';
import type { JsonObject, JsonValue } from '@toolloop/protocol';
import {
  readAgUiRequest,
  readAssistantRequest,
  readChatCompletionsRequest,
  readDataStreamRequest,
  readUiMessageRequest,
} from '@toolloop/ui-stream';

const user = { role: 'user', content: 'Hello.', id: 'm1' };

/** Each protocol with a body that it takes, and its lists of objects. */
const PROTOCOLS: readonly (readonly [
  string,
  (body: JsonValue) => unknown,
  JsonObject,
  readonly string[],
])[] = [
  [
    'AG-UI',
    readAgUiRequest,
    { threadId: 't', runId: 'r', messages: [user] },
    ['messages', 'resume', 'tools'],
  ],
  ['the assistant transport', readAssistantRequest, { commands: [] }, ['commands', 'tools']],
  [
    'chat completions',
    readChatCompletionsRequest,
    { model: 'm', messages: [user] },
    ['messages', 'tools'],
  ],
  ['the data stream', readDataStreamRequest, { messages: [user] }, ['messages', 'tools']],
  [
    'the AI SDK',
    readUiMessageRequest,
    { id: 'c', messages: [{ ...user, parts: [] }] },
    ['messages', 'tools'],
  ],
];

describe.each(PROTOCOLS)('a request of %s', (_name, read, body, lists) => {
  it('is read as it is', () => {
    expect(() => read(body)).not.toThrow();
  });

  it.each(lists)('is refused if %s holds no objects, and says where', (name) => {
    for (const wrong of [5, 'text', true, [5], [[]], ['text', {}]])
      expect(() => read({ ...body, [name]: wrong })).toThrow(name);
  });

  it.each(lists.filter((name) => !(name in body)))('is read without %s, or with null', (name) => {
    for (const absent of [undefined, null])
      expect(() => read({ ...body, ...(absent === null && { [name]: null }) })).not.toThrow();
  });
});

describe('the parts of a message of the AI SDK', () => {
  it('are objects, or the request is refused', () => {
    const messages = [{ ...user, parts: [5] }];
    expect(() => readUiMessageRequest({ id: 'c', messages })).toThrow('"parts" must be');
  });
});

describe('the tools of a request by their names', () => {
  it('are objects, or the request is refused at the one that is none', () => {
    const body = { id: 'c', messages: [{ ...user, parts: [] }] };
    expect(readUiMessageRequest({ ...body, tools: { show: {} } }).tools).toEqual([{ id: 'show' }]);
    expect(() => readUiMessageRequest({ ...body, tools: { show: 5 } })).toThrow('"tools.show"');
  });
});
