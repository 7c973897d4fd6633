import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { anthropic, toMessagesRequest } from '@toolloop/anthropic';
import { openai, toChatRequest, toResponsesRequest } from '@toolloop/openai';
import type {
  LanguageModel,
  Message,
  ModelRequest,
  ToolCall,
  ToolMessage,
  ToolSpec,
} from '@toolloop/protocol';
import * as fc from 'fast-check';
import { Socket } from 'node:net';
import { answers, LocalProvider } from '../../libs/wire/test/local-provider.js';
import { toolSpec } from '../../libs/wire/test/requests.js';

type Fetch = (url: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** A way to write the body of a request, and a model that sends it. */
interface Wire {
  readonly write: (request: ModelRequest) => string;
  readonly model: (baseURL: string, fetch?: Fetch) => LanguageModel;
}

const KEY = 'none';

const WIRES: Readonly<Record<string, Wire>> = {
  chat: {
    write: (request) => toChatRequest(request, { model: 'own-1' }),
    model: (baseURL, fetch) => openai('own-1', { apiKey: KEY, baseURL, ...(fetch && { fetch }) }),
  },
  responses: {
    write: (request) => toResponsesRequest(request, { model: 'own-1' }),
    model: (baseURL, fetch) =>
      openai('own-1', { apiKey: KEY, api: 'responses', baseURL, ...(fetch && { fetch }) }),
  },
  messages: {
    write: (request) => toMessagesRequest(request, { model: 'own-1' }),
    model: (baseURL, fetch) =>
      anthropic('own-1', { apiKey: KEY, baseURL, ...(fetch && { fetch }) }),
  },
};

let provider: LocalProvider | undefined;

afterEach(async () => {
  jest.restoreAllMocks();
  await provider?.[Symbol.asyncDispose]();
  provider = undefined;
});

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc.constantFrom('', ' ', 'Grüße 🚚', '"\\\n\u2028', '\ud83d', 'x'.repeat(70_000)),
);
const content = fc.oneof(
  text,
  fc.array(
    fc.oneof(
      text.map((words) => ({ type: 'text' as const, text: words })),
      fc.constant({ type: 'image' as const, url: 'data:image/png;base64,aGk=' }),
      fc.constant({
        type: 'file' as const,
        url: 'data:text/plain;base64,aGk=',
        mediaType: 'text/plain',
        name: 'a.txt',
      }),
    ),
    { maxLength: 2 },
  ),
);
const call = fc.record({
  toolCallId: fc.constantFrom('a', 'b', 'c', 'd'.repeat(70)),
  name: fc.constantFrom('look', 'no such tool'),
  arguments: fc.constantFrom('{"id": 1}', '{}', 'null', '{"a":"é'),
});
const THOUGHT = {
  model: 'own-1',
  blocks: [{ type: 'thinking', thinking: 'Hm.', signature: 'x' }],
  container: 'box',
};

/** One message, or an answer with the results of its calls. */
const turn: fc.Arbitrary<readonly Message[]> = fc.oneof(
  content.map((words) => [{ role: 'user' as const, content: words }]),
  text.map((words) => [{ role: 'system' as const, content: words }]),
  fc
    .tuple(
      text,
      fc.uniqueArray(call, { maxLength: 3, selector: ({ toolCallId }) => toolCallId }),
      content,
      fc.boolean(),
    )
    .map(([said, toolCalls, result, isThought]) =>
      answered(said, toolCalls, result, isThought ? { anthropic: THOUGHT } : {}),
    ),
);

function answered(
  said: string,
  toolCalls: readonly ToolCall[],
  result: ToolMessage['content'],
  providerData: object,
): readonly Message[] {
  const results = toolCalls.map(({ toolCallId }): ToolMessage => ({
    role: 'tool',
    toolCallId,
    toolName: 'look',
    content: result,
  }));
  return [
    { role: 'assistant', content: said, toolCalls, providerData: { ...providerData } },
    ...results,
  ];
}

/** How the next request of a run differs from the one before. */
const change = fc.oneof(
  {
    arbitrary: turn.map((added) => (before: readonly Message[]) => [...before, ...added]),
    weight: 5,
  },
  {
    arbitrary: fc.nat(20).map((at) => (before: readonly Message[]) => before.toSpliced(at, 1)),
    weight: 1,
  },
  {
    arbitrary: fc.nat(20).map((at) => (before: readonly Message[]) => before.slice(0, at)),
    weight: 1,
  },
  {
    arbitrary: turn.map((added) => (before: readonly Message[]) => [...added, ...before]),
    weight: 1,
  },
);

const TOOLS = ['one', 'two', 'three', 'four'].map((id) =>
  toolSpec(id, { id: { type: 'integer' } }),
);

/** A step's result, about as long as most are. */
function stepOf(index: number, length = 1000): readonly Message[] {
  return [
    {
      role: 'assistant',
      content: '',
      toolCalls: [{ toolCallId: `call_${index}`, name: 'one', arguments: `{"id":${index}}` }],
    },
    {
      role: 'tool',
      toolCallId: `call_${index}`,
      toolName: 'one',
      content: `Nr. ${index} ü `.padEnd(length, 'x'),
    },
  ];
}

function runOf(steps: number, length?: number): Message[] {
  return [
    { role: 'user', content: 'Go.' },
    ...Array.from({ length: steps }, (_, index) => stepOf(index, length)).flat(),
  ];
}

/** Reads an answer to its end, whatever it is. */
async function read(model: LanguageModel, request: ModelRequest): Promise<void> {
  try {
    for await (const event of model.stream(request, new AbortController().signal)) void event;
  } catch {
    // The provider refuses every request here.
  }
}

describe.each(Object.entries(WIRES))(
  'the body of a request over the wire of %s',
  (_name, { write, model }) => {
    it('is the same whether its transcript was written before or not, however that grew and changed', () => {
      fc.assert(
        fc.property(
          fc.array(change, { maxLength: 12 }),
          fc.array(fc.subarray(TOOLS), { minLength: 1, maxLength: 4 }),
          text,
          (changes, toolsets, words) => {
            let messages: readonly Message[] = [{ role: 'user', content: 'Hi' }];
            for (const [index, changed] of changes.entries()) {
              messages = changed(messages);
              const tools = toolsets[index % toolsets.length] ?? [];
              const request = {
                messages,
                tools,
                ...(index % 3 > 0 && { instructions: index % 3 === 1 ? words : 'Be brief.' }),
              };
              expect(write(request)).toBe(write(structuredClone(request)));
            }
          },
        ),
        { numRuns: 60 },
      );
    });

    it('has the same bytes each time, and is a text to a fetch of the application', async () => {
      provider = await LocalProvider.start(answers(400, '{}'));
      const request = { messages: runOf(30, 5000), tools: TOOLS, instructions: 'Be brief. ü' };
      const subject = model(provider.baseURL);
      const seen: unknown[] = [];
      const own = model(provider.baseURL, (url, init) => {
        seen.push(init?.body);
        return fetch(url, init);
      });
      for (const each of [subject, subject, own]) await read(each, request);
      const body = write(request);
      expect(provider.requests.map((received) => received.body === body)).toEqual([
        true,
        true,
        true,
      ]);
      expect(seen).toEqual([body]);
      expect(provider.requests[1]?.headers).toMatchObject({
        'content-length': String(Buffer.byteLength(body)),
      });
    });

    it('encodes in each step what is new in it, copies the rest once, and sends all in one write', async () => {
      provider = await LocalProvider.start(answers(400, '{}'));
      const subject = model(provider.baseURL);
      const tools: readonly ToolSpec[] = Array.from({ length: 200 }, (_, index) =>
        toolSpec(`tool_${index}`),
      );
      const messages = runOf(0);
      for (let step = 0; step < 10; step += 1) messages.push(...stepOf(step));
      await read(subject, { messages, tools });
      await read(subject, { messages, tools });
      let [stringified, encoded, copied, writes, most] = [0, 0, 0, 0, 0];
      const { stringify } = JSON;
      jest.spyOn(JSON, 'stringify').mockImplementation((...args) => {
        const written: unknown = Reflect.apply(stringify, JSON, args);
        stringified += String(written).length;
        return String(written);
      });
      const concat = Buffer.concat.bind(Buffer);
      const from = Buffer.from.bind(Buffer);
      jest.spyOn(Buffer, 'concat').mockImplementation((list, length) => {
        copied += list.reduce((sum, piece) => sum + piece.length, 0);
        return concat(list, length);
      });
      jest.spyOn(Buffer, 'from').mockImplementation((...args) => {
        const made = Reflect.apply(from, Buffer, args);
        encoded += made.length;
        return made;
      });
      const writev: unknown = Reflect.get(Socket.prototype, '_writev');
      jest.spyOn(Socket.prototype, '_writev').mockImplementation(function (
        this: Socket,
        chunks,
        callback,
      ) {
        if (provider?.sockets.has(this) !== true) {
          writes += 1;
          most = Math.max(most, chunks.length);
        }
        if (typeof writev === 'function') Reflect.apply(writev, this, [chunks, callback]);
      });
      const steps = 200;
      for (let step = 10; step < 10 + steps; step += 1) {
        messages.push(...stepOf(step));
        await read(subject, { messages: [...messages], tools });
      }
      jest.restoreAllMocks();
      const grown = stringify(messages).length / (10 + steps);
      expect({
        stringified: stringified / steps < 1.5 * grown,
        encoded: encoded / steps < 1.5 * grown,
      }).toEqual({
        stringified: true,
        encoded: true,
      });
      // Each body is joined twice: here, and by the provider in this process, which receives it.
      const received = provider.requests
        .slice(-steps)
        .reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
      expect((copied - 2 * received) / steps).toBeLessThan(8 * grown);
      expect(most).toBeLessThan(4);
      expect(writes).toBeLessThan(1.1 * steps);
    });
  },
);
