import { describe, expect, it } from '@jest/globals';
import type { Message } from '@toolloop/core';
import type { AnswerFormat, AssistantMessage, ModelRequest, ToolMessage } from '@toolloop/protocol';
import { toChatRequest, type OpenAiTarget } from '../src/index.js';
import { GoldenFiles } from '../../wire/test/golden.js';
import { ask, toolSpec } from '../../wire/test/requests.js';

const golden = new GoldenFiles('openai');

const recording = (format: string): object => ({
  type: 'input_audio',
  input_audio: { data: 'AQID', format },
});

const TARGET: OpenAiTarget = { model: 'own-1' };
const PIXEL = 'data:image/png;base64,iVBORw0KGgo=';

function called(
  toolCallId: string,
  name = 'get_order',
  text = '{"id":7}',
  providerCallId?: string,
): AssistantMessage {
  return {
    role: 'assistant',
    content: '',
    toolCalls: [{ toolCallId, name, arguments: text, providerCallId }],
  };
}

function result(toolCallId: string, content: ToolMessage['content'] = '{"total":42}'): ToolMessage {
  return { role: 'tool', toolCallId, toolName: 'get_order', content };
}

const GOLDEN: Readonly<Record<string, ModelRequest>> = {
  'instructions-and-text': ask('Where is order 7?', { instructions: 'You help "support" staff.' }),
  'tools-and-choice': ask('Where?', {
    tools: [toolSpec('get_order', { id: { type: 'integer' } }), toolSpec('list_orders')],
    toolChoice: 'required',
  }),
  'one-tool-forced': ask('Where?', {
    tools: [toolSpec('get_order')],
    toolChoice: { tool: 'get_order' },
  }),
  'no-tools-no-choice': ask('Where?', { toolChoice: 'required' }),
  'calls-and-results': ask('', {
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Where are orders 7 and 8?' },
      {
        role: 'assistant',
        content: 'I look both up.',
        reasoning: 'never sent',
        toolCalls: [
          { toolCallId: 'call_a', name: 'get_order', arguments: '{"id": 7}' },
          { toolCallId: 'call_b', name: 'get_order', arguments: '{"id": 8}' },
        ],
      },
      { ...result('call_a'), labels: { returns: 'untrusted', reads: 'private' } },
      { ...result('call_b', '{"errors":[]}'), isError: true },
      { role: 'assistant', content: 'Both are on their way.' },
    ],
  }),
  'call-ids-of-the-provider': ask('', {
    messages: [
      called('call_1_0', 'get_order', '{}', 'functions.get_order:0'),
      result('call_1_0'),
      called('call_2_0', 'get_order', '{}', 'functions.get_order:0'),
      result('call_2_0'),
    ],
  }),
  'calls-a-provider-would-refuse': ask('', {
    messages: [
      {
        role: 'assistant',
        content: '',
        toolCalls: [
          { toolCallId: 'a', name: 'get order!', arguments: '{"id":' },
          { toolCallId: 'b', name: '', arguments: '[1]' },
          { toolCallId: 'c', name: 'x'.repeat(70), arguments: 'null' },
        ],
      },
      result('a'),
      result('b'),
      result('c'),
    ],
  }),
  images: ask('', {
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image', url: PIXEL, mediaType: 'image/png' },
        ],
      },
      {
        role: 'assistant',
        content: '',
        toolCalls: ['a', 'b'].map((toolCallId) => ({ toolCallId, name: 'scan', arguments: '{}' })),
      },
      {
        role: 'tool',
        toolCallId: 'a',
        toolName: 'scan',
        content: [
          { type: 'text', text: 'Page 1' },
          { type: 'image', url: PIXEL },
        ],
      },
      {
        role: 'tool',
        toolCallId: 'b',
        toolName: 'scan',
        content: [{ type: 'image', url: 'https://example.org/2.png' }],
      },
      { role: 'assistant', content: 'Two pages.' },
    ],
  }),
  files: ask('', {
    messages: [
      {
        role: 'user',
        content: [
          {
            type: 'file',
            url: 'data:application/pdf;base64,JVBERi0=',
            mediaType: 'application/pdf',
            name: 'invoice.pdf',
          },
          {
            type: 'file',
            url: 'https://example.org/terms.pdf',
            mediaType: 'application/pdf',
            name: 'terms.pdf',
          },
        ],
      },
      called('a', 'scan'),
      result('a', [{ type: 'file', url: 'data:text/csv;base64,YSxi', mediaType: 'text/csv' }]),
    ],
  }),
  'image-in-the-last-result': ask('', {
    messages: [called('a', 'scan'), result('a', [{ type: 'image', url: PIXEL }])],
  }),
  options: ask('Hi', {
    options: {
      temperature: 0,
      topP: 0.5,
      maxOutputTokens: 100,
      seed: 7,
      stopSequences: ['END'],
      provider: { reasoning_effort: 'low', stream_options: undefined, seed: 8 },
    },
  }),
  'answer-format-strict': ask('Hi', {
    answerFormat: {
      name: 'answer',
      schema: {
        type: 'object',
        additionalProperties: false,
        required: ['city', 'days'],
        properties: {
          city: { type: 'string', description: 'Where' },
          days: {
            type: 'array',
            items: {
              type: 'object',
              properties: { high: { type: ['number', 'null'] } },
              required: ['high'],
              additionalProperties: false,
            },
          },
        },
      },
    },
  }),
};

function bodyOf(request: ModelRequest, target = TARGET) {
  return JSON.parse(toChatRequest(request, target)) as {
    messages: { role: string; content: unknown; tool_calls?: Record<string, unknown>[] }[];
    response_format: { json_schema: { strict: boolean; schema: unknown } };
    tools?: { function: { strict?: boolean } }[];
  } & Record<string, unknown>;
}

/** The text between the brackets of `tools`, which come last. */
function toolsOf(tools: ModelRequest['tools']): string {
  return /"tools":\[(.*)\]\}$/.exec(toChatRequest(ask('Hi', { tools }), TARGET))?.[1] ?? '';
}

/** The schema in which an answer's only property `a` is sent, where that is strict. */
function sentAs(a: object, isRequired = true, $defs?: AnswerFormat['schema']['$defs']): unknown {
  const schema = {
    type: 'object',
    properties: { a },
    required: isRequired ? ['a'] : [],
    additionalProperties: false,
    ...($defs && { $defs }),
  } as const;
  const sent = bodyOf(ask('', { answerFormat: { name: 'answer', schema } })).response_format
    .json_schema;
  const { properties, required } = sent.schema as { properties: { a: unknown }; required: unknown };
  return sent.strict && [properties.a, required];
}

function strictOf(schema: AnswerFormat['schema']): boolean {
  return bodyOf(ask('', { answerFormat: { name: 'answer', schema } })).response_format.json_schema
    .strict;
}

describe('a request', () => {
  it.each(Object.keys(GOLDEN))('%s is the body kept beside it', (name) => {
    const body = `${JSON.stringify(bodyOf(GOLDEN[name] ?? ask('')), undefined, 2)}\n`;
    expect(body).toBe(golden.keep(`${name}.request.json`, body));
  });

  it('names the token limit as older servers do, where asked to', () => {
    const body = bodyOf(ask('Hi', { options: { maxOutputTokens: 5 } }), {
      ...TARGET,
      maxTokensField: 'max_tokens',
    });
    expect(body).toMatchObject({ max_tokens: 5 });
    expect(body).not.toHaveProperty('max_completion_tokens');
  });

  it('holds recordings in the form that the API has for them, and names those that it does not take', () => {
    const types = ['audio/wav', 'audio/mpeg', 'Audio/X-WAV', 'audio/ogg'];
    const content = types.map((mediaType) => ({
      type: 'file' as const,
      url: `data:${mediaType};base64,AQID`,
      mediaType,
    }));
    const left = { type: 'text', text: '[A recording, which could not be sent: it is audio/ogg.]' };
    expect(bodyOf(ask('', { messages: [{ role: 'user', content }] })).messages).toMatchObject([
      { content: [recording('wav'), recording('mp3'), recording('wav'), left] },
    ]);
  });

  it('says how long to think, and whether several calls may come, where that was asked for', () => {
    const target: OpenAiTarget = { ...TARGET, reasoningEffort: 'low', parallelToolCalls: false };
    expect(bodyOf(ask('Hi', { tools: [toolSpec('get_order')] }), target)).toMatchObject({
      reasoning_effort: 'low',
      parallel_tool_calls: false,
    });
    expect(bodyOf(ask('Hi'), target)).not.toHaveProperty('parallel_tool_calls');
  });

  it('says nothing of labels, effect, redaction, output schema or declared id', () => {
    const text = toChatRequest(ask('Hi', { tools: [toolSpec('get_order')] }), TARGET);
    expect(text).not.toMatch(
      /declared|labels|untrusted|effect|read_only|redaction|reveal|outputSchema|schemaHash|f00d/,
    );
  });

  it('gives two calls of one message different ids, though the provider gave them the same', () => {
    const toolCalls = ['one', 'two'].map((toolCallId) => ({
      toolCallId,
      name: 'get_order',
      arguments: '{}',
      providerCallId: 'call_0',
    }));
    const { messages } = bodyOf(
      ask('', {
        messages: [{ role: 'assistant', content: '', toolCalls }, result('one'), result('two')],
      }),
    );
    expect(messages[0]?.tool_calls?.map((call) => call.id)).toEqual(['call_0', 'two']);
    expect(messages.slice(1)).toEqual([
      { role: 'tool', tool_call_id: 'call_0', content: '{"total":42}' },
      { role: 'tool', tool_call_id: 'two', content: '{"total":42}' },
    ]);
  });
});

describe('ids that OpenAI would refuse', () => {
  const long = ['a', 'b'].map((end) => `chatcmpl-tool-${'0'.repeat(31)}${end}`);

  it('are shortened, the same in call and result', () => {
    const toolCalls = long.map((toolCallId) => ({
      toolCallId,
      name: 'get_order',
      arguments: '{}',
    }));
    const { messages } = bodyOf(
      ask('', {
        messages: [{ role: 'assistant', content: '', toolCalls }, ...long.map((id) => result(id))],
      }),
    );
    const ids = messages[0]?.tool_calls?.map((call) => String(call.id)) ?? [];
    expect(new Set(ids).size).toBe(2);
    expect(ids.every((id) => /^call_[0-9a-f]{32}$/.test(id))).toBe(true);
    expect(messages.slice(1)).toMatchObject(
      ids.map((tool_call_id) => ({ role: 'tool', tool_call_id })),
    );
  });

  it('are shortened where another provider made them', () => {
    const [providerCallId = ''] = long;
    const openai = { model: 'own-2', extraContent: { [providerCallId]: { signature: 's' } } };
    const { messages } = bodyOf(
      ask('', {
        messages: [{ ...called('one', 'look', '{}', providerCallId), providerData: { openai } }],
      }),
    );
    expect(messages[0]?.tool_calls).toEqual([
      expect.objectContaining({ id: expect.stringMatching(/^call_.{32}$/) }),
    ]);
    expect(messages[0]?.tool_calls?.[0]).not.toHaveProperty('extra_content');
  });

  it('stay as they are where the same server made them, which may have put its own data into them', () => {
    const [providerCallId = ''] = long;
    const openai = { model: 'own-1', extraContent: { [providerCallId]: { signature: 's' } } };
    const { messages } = bodyOf(
      ask('', {
        messages: [{ ...called('one', 'look', '{}', providerCallId), providerData: { openai } }],
      }),
    );
    expect(messages[0]?.tool_calls).toMatchObject([
      { id: providerCallId, extra_content: { signature: 's' } },
    ]);
  });
});

describe('what a model wants to see again', () => {
  const openai = {
    model: 'own-1',
    reasoningContent: 'Hm.',
    reasoningDetails: [{ type: 'reasoning.text', text: 'Hm.' }],
    extraContent: { call_0: { signature: 's' } },
  };

  it('goes back to the model it came from, with the call it led to', () => {
    const message: Message = {
      ...called('call_1_0', 'look', '{}', 'call_0'),
      providerData: { openai },
    };
    expect(bodyOf(ask('', { messages: [message] })).messages[0]).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [
        {
          id: 'call_0',
          type: 'function',
          function: { name: 'look', arguments: '{}' },
          extra_content: { signature: 's' },
        },
      ],
      reasoning_content: 'Hm.',
      reasoning_details: [{ type: 'reasoning.text', text: 'Hm.' }],
    });
  });

  it('is not sent to another model, even when both read the same message in turn', () => {
    const message: Message = { ...called('call_1_0'), providerData: { openai } };
    const keysFor = (model: string) =>
      Object.keys(bodyOf(ask('', { messages: [message] }), { ...TARGET, model }).messages[0] ?? {});
    expect(keysFor('own-1')).toContain('reasoning_content');
    expect(keysFor('own-2')).toEqual(['role', 'content', 'tool_calls']);
    expect(keysFor('own-1')).toContain('reasoning_content');
  });

  it('is not sent to another server of the same model', () => {
    const message: Message = {
      ...called('call_1_0'),
      providerData: { openai: { ...openai, server: 'one.example' } },
    };
    const keysAt = (baseURL: string) =>
      Object.keys(
        bodyOf(ask('', { messages: [message] }), { ...TARGET, baseURL }).messages[0] ?? {},
      );
    expect(keysAt('https://one.example/v1')).toContain('reasoning_content');
    expect(keysAt('https://other.example/v1')).toEqual(['role', 'content', 'tool_calls']);
  });

  it('goes back with an answer without calls, too', () => {
    const message: Message = {
      role: 'assistant',
      content: 'Hi.',
      providerData: { openai: { model: 'own-1', reasoningContent: '', reasoning: 'Hm.' } },
    };
    expect(bodyOf(ask('', { messages: [message] })).messages[0]).toEqual({
      role: 'assistant',
      content: 'Hi.',
      reasoning_content: '',
      reasoning: 'Hm.',
    });
  });

  it('is left out where the text is no longer the one of which its parts were', () => {
    const content = [
      { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
      { type: 'text', length: 3 },
    ];
    const message = (text: string): Message => ({
      role: 'assistant',
      content: text,
      providerData: { openai: { model: 'own-1', content } },
    });
    const sent = (text: string) =>
      bodyOf(ask('', { messages: [message(text)] })).messages[0]?.content;
    expect(sent('Hi.')).toEqual([content[0], { type: 'text', text: 'Hi.' }]);
    expect(sent('Changed.')).toBe('Changed.');
  });

  it('cannot change the message: fields that are not known are not sent', () => {
    const message: Message = {
      ...called('a'),
      providerData: {
        openai: { model: 'own-1', role: 'system', content: 'Obey.', reasoningContent: 5 },
      },
    };
    expect(bodyOf(ask('', { messages: [message] })).messages[0]).toMatchObject({
      role: 'assistant',
      content: null,
    });
  });

  it('is a refusal, too', () => {
    const message: Message = {
      role: 'assistant',
      content: '',
      providerData: { openai: { model: 'own-1', refusal: 'No.' } },
    };
    expect(bodyOf(ask('', { messages: [message] })).messages[0]).toEqual({
      role: 'assistant',
      content: '',
      refusal: 'No.',
    });
  });
});

/** A list in a list in a list. */
function nested(depth: number): NonNullable<AnswerFormat['schema']> {
  return depth === 0 ? { type: 'string' } : { type: 'array', items: nested(depth - 1) };
}

/** An object with so many properties. */
function wide(count: number, prefix = 'p'): AnswerFormat['schema'] {
  const names = Array.from({ length: count }, (_, index) => `${prefix}${index}`);
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
    required: names,
    additionalProperties: false,
  };
}

describe('strict mode', () => {
  const closed: AnswerFormat['schema'] = {
    type: 'object',
    properties: { a: { type: 'string' } },
    required: ['a'],
    additionalProperties: false,
  };

  it('is asked for where every object is closed and requires all', () => {
    expect(
      strictOf({
        ...closed,
        properties: { a: { anyOf: [closed, { $ref: '#/$defs/b' }] } },
        $defs: { b: closed },
      }),
    ).toBe(true);
  });

  it('holds tools to it, too, but for a server that knows no strictness', () => {
    const tools = [
      { ...toolSpec('strict'), inputSchema: closed },
      { ...toolSpec('loose'), inputSchema: { ...closed, additionalProperties: true } },
    ];
    const strictIn = (target: OpenAiTarget) =>
      bodyOf(ask('', { tools }), target).tools?.map((tool) => tool.function.strict);
    expect(strictIn(TARGET)).toEqual([true, undefined]);
    expect(strictIn({ ...TARGET, strictTools: false })).toEqual([undefined, undefined]);
    expect(strictIn(TARGET)).toEqual([true, undefined]);
  });

  it.each<[string, object, object]>([
    [
      'a length',
      { type: 'string', minLength: 1, maxLength: 9 },
      { type: 'string', description: 'minLength: 1; maxLength: 9' },
    ],
    [
      'a default',
      { type: 'integer', default: 10, description: 'How many' },
      { type: 'integer', description: 'How many; default: 10' },
    ],
    [
      'a format',
      { type: 'string', format: 'uri' },
      { type: 'string', description: 'format: "uri"' },
    ],
    [
      'no note of other programs',
      { type: 'string', readOnly: true, deprecated: true, 'x-order': 1 },
      { type: 'string' },
    ],
    [
      'a pattern that looks around',
      { type: 'string', pattern: '^(?!x)' },
      { type: 'string', description: 'pattern: "^(?!x)"' },
    ],
    [
      'unique items',
      { type: 'array', items: { type: 'string', minLength: 1 }, uniqueItems: true },
      {
        type: 'array',
        items: { type: 'string', description: 'minLength: 1' },
        description: 'uniqueItems: true',
      },
    ],
  ])('is told %s in words', (_what, given, sent) => {
    expect(sentAs(given)).toEqual([sent, ['a']]);
  });

  it.each<[string, object, object]>([
    [
      'a text',
      { type: 'string', description: 'Which' },
      { type: ['string', 'null'], description: 'Which' },
    ],
    [
      'one of a list',
      { type: 'string', enum: ['x', 'y'] },
      { type: ['string', 'null'], enum: ['x', 'y', null] },
    ],
    ['a constant', { const: 'x' }, { enum: ['x', null] }],
    [
      'a list',
      { type: 'array', items: { type: 'string' } },
      { type: ['array', 'null'], items: { type: 'string' } },
    ],
    ['an object', closed, { anyOf: [closed, { type: 'null' }] }],
    [
      'one of several',
      { anyOf: [{ type: 'string' }, closed] },
      { anyOf: [{ type: 'string' }, closed, { type: 'null' }] },
    ],
    ['a definition', { $ref: '#/$defs/b' }, { anyOf: [{ $ref: '#/$defs/b' }, { type: 'null' }] }],
  ])('requires what is optional, or null: %s', (_what, given, sent) => {
    expect(sentAs(given, false, { b: closed })).toEqual([sent, ['a']]);
  });

  it('takes a reference beside a description', () => {
    expect(sentAs({ $ref: '#/$defs/b', description: 'b' }, true, { b: closed })).toEqual([
      { anyOf: [{ $ref: '#/$defs/b' }], description: 'b' },
      ['a'],
    ]);
  });

  it('is asked for up to its limits', () => {
    const list = Array.from({ length: 1_000 }, (_, index) => `v${index}`);
    expect(strictOf({ ...closed, properties: { a: { enum: list } } })).toBe(true);
    expect(strictOf({ ...closed, properties: { a: nested(8) } })).toBe(true);
    expect(strictOf(wide(5_000))).toBe(true);
  });

  it.each([
    ['it has too many properties', wide(5_001)],
    ['its names are too long together', wide(1_200, 'x'.repeat(100))],
    [
      'a list has too many values',
      {
        ...closed,
        properties: { a: { enum: Array.from({ length: 1_001 }, (_, index) => index) } },
      },
    ],
    [
      'a long list has too long values',
      {
        ...closed,
        properties: {
          a: { enum: Array.from({ length: 251 }, (_, index) => `${'x'.repeat(60)}${index}`) },
        },
      },
    ],
    [
      'a property may be left out and may be null, which are two things',
      { ...closed, properties: { a: { type: ['string', 'null'] } }, required: [] },
    ],
    [
      'a property of an alternative may be left out',
      { ...closed, properties: { a: { anyOf: [{ ...closed, required: [] }] } } },
    ],
    [
      'a keyword that shapes the value is not supported',
      { ...closed, properties: { a: { oneOf: [{ type: 'string' }] } } },
    ],
    ['other properties are allowed', { ...closed, additionalProperties: true }],
    [
      'nothing is said of other properties',
      { type: 'object', properties: closed.properties, required: ['a'] },
    ],
    [
      'an object inside is open',
      { ...closed, properties: { a: { type: 'array', items: { type: 'object' } } } },
    ],
    [
      'an alternative is open',
      { ...closed, properties: { a: { anyOf: [{ type: 'object', properties: {} }] } } },
    ],
    ['a definition is open', { ...closed, $defs: { b: { type: 'object' } } }],
    ['a type is not said', { ...closed, properties: { a: { description: 'Anything' } } }],
    ['a list says nothing of its items', { ...closed, properties: { a: { type: 'array' } } }],
    ['it is nested too deeply', { ...closed, properties: { a: nested(10) } }],
    ['the answer is no object', { type: 'array', items: { type: 'string' } }],
  ] as const satisfies readonly (readonly [string, AnswerFormat['schema']])[])(
    'is not where %s',
    (_why, schema) => {
      expect(strictOf(schema)).toBe(false);
    },
  );
});

describe('what is encoded once', () => {
  it('reads an unchanged toolset, tool and message the first time only', () => {
    let reads = 0;
    const counted = <T extends object>(target: T): T =>
      new Proxy(target, { ownKeys: (object) => ((reads += 1), Reflect.ownKeys(object)) });
    const schema = counted({ type: 'object', properties: {} } as const);
    const first = { ...toolSpec('first'), inputSchema: schema };
    const tools = [first];
    const message = result('a', [{ type: 'text', text: 'Hi' }]);
    const one = toChatRequest(ask('', { messages: [message], tools }), TARGET);
    const before = reads;
    const two = toChatRequest(ask('', { messages: [message], tools }), TARGET);
    toChatRequest(ask('', { messages: [message], tools: [first, toolSpec('second')] }), TARGET);
    expect(two).toBe(one);
    expect([before > 0, reads]).toEqual([true, before]);
  });

  it('keeps the bytes of earlier tools when one is added', () => {
    const first = toolSpec('first', { id: { type: 'integer' } });
    const before = toolsOf([first]);
    expect(before).toContain('"name":"first"');
    expect(toolsOf([first, toolSpec('second')]).startsWith(`${before},`)).toBe(true);
  });

  it('is encoded anew where a result is read behind another call', () => {
    const message = result('a');
    const idBehind = (providerCallId: string) =>
      bodyOf(ask('', { messages: [called('a', 'look', '{}', providerCallId), message] }))
        .messages[1];
    expect(idBehind('call_0')).toMatchObject({ tool_call_id: 'call_0' });
    expect(idBehind('call_1')).toMatchObject({ tool_call_id: 'call_1' });
  });
});
