import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import {
  answer,
  block,
  call,
  decode,
  finishOf,
  joined,
  sse,
  START,
  STOP,
  text,
  textOf,
  thinking,
  USED,
} from './decode.js';

const END = { type: 'finish', finishReason: 'stop' };

describe('deltas of one network read', () => {
  it('become one event, however many they are', () => {
    const words = Array.from({ length: 2000 }, (_, index) => `${index} `);
    expect(decode([answer(text(0, ...words))]).events).toEqual([
      { type: 'text-delta', text: words.join('') },
      USED,
      END,
    ]);
  });

  it('are handed out with the read they came in', () => {
    const [start, one, two, stop] = text(0, 'one', 'two').map((event) => sse(event));
    const reads = [
      sse(START) + start + one,
      two ?? '',
      `${stop}${answer([]).slice(sse(START).length)}`,
    ];
    expect(decode(reads).events.slice(0, 2)).toEqual([
      { type: 'text-delta', text: 'one' },
      { type: 'text-delta', text: 'two' },
    ]);
  });
});

describe('bytes', () => {
  const stream = answer(
    [
      ...thinking(0, 'Ünï ', 's1=='),
      { type: 'ping' },
      ...text(1, 'A “quoted” ', '🚚'),
      ...call(2, 'toolu_a', 'look', '{"at":', '"\u2028é"}'),
      ...call(3, 'toolu_b', 'look'),
    ],
    'tool_use',
  );
  const whole = joined(decode([stream]).events);

  it('mean the same wherever they are cut in two', () => {
    expect(whole).toHaveLength(7);
    const bytes = Buffer.from(stream);
    for (let at = 0; at <= bytes.length; at += 1) {
      expect(joined(decode([bytes.subarray(0, at), bytes.subarray(at)]).events)).toEqual(whole);
    }
  });

  it('mean the same wherever they are cut in many and however lines end', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.array(fc.nat(40), { maxLength: 60 }),
        fc.boolean(),
        (lineEnd, sizes, hasMark) => {
          const bytes = Buffer.from((hasMark ? '\ufeff' : '') + stream.replaceAll('\n', lineEnd));
          const reads: Uint8Array[] = [];
          let at = 0;
          for (const size of sizes) reads.push(bytes.subarray(at, (at += size)));
          reads.push(bytes.subarray(at));
          expect(joined(decode(reads).events)).toEqual(whole);
        },
      ),
    );
  });

  it('need no names of events', () => {
    expect(joined(decode([stream.replaceAll(/^event: .*\n/gm, '')]).events)).toEqual(whole);
  });
});

describe('a call', () => {
  it('is handed out when its block has ended, its arguments as they were written', () => {
    const events = decode([answer(call(0, 'toolu_a', 'look', '{"a": ', '1 }'), 'tool_use')]).events;
    expect(events).toEqual([
      { type: 'tool-call-delta', toolCallId: 'toolu_a', name: 'look', argumentsDelta: '{"a": 1 }' },
      { type: 'tool-call', toolCallId: 'toolu_a', name: 'look', arguments: '{"a": 1 }' },
      USED,
      { type: 'finish', finishReason: 'tool_calls' },
    ]);
  });

  it.each([
    ['nothing', undefined, '{}'],
    ['an empty object', {}, '{}'],
    ['an object', { id: 7 }, '{"id":7}'],
    ['a text', '{"id":', '{"id":'],
    ['null', null, '{}'],
  ])(
    'has, when its block begins with %s as input, the same as arguments',
    (_what, input, expected) => {
      const { events } = decode([
        answer(block(0, { type: 'tool_use', id: 'toolu_a', name: 'look', input }), 'tool_use'),
      ]);
      expect(events.find((event) => event.type === 'tool-call')?.arguments).toBe(expected);
    },
  );

  it('is passed on as it is when its arguments are malformed', () => {
    const { events } = decode([answer(call(0, 'toolu_a', 'look', '{"a":', 'oops'), 'tool_use')]);
    expect(events.find((event) => event.type === 'tool-call')?.arguments).toBe('{"a":oops');
  });

  it.each([
    ['that never ends', call(0, 'toolu_a', 'look', '{"a":1').slice(0, -1), '{"a":1'],
    ['that never begins to say its input', call(0, 'toolu_a', 'look').slice(0, -1), '{}'],
    [
      'that had its input in the beginning and never ends',
      block(0, { type: 'tool_use', id: 'toolu_a', name: 'look', input: { a: 1 } }).slice(0, -1),
      '{"a":1}',
    ],
  ])('%s is shown as far as it came, and the answer is not whole', (_what, events, args) => {
    const decoded = decode([answer([...call(1, 'toolu_b', 'find', '{}'), ...events], 'tool_use')]);
    expect(decoded.events.filter(({ type }) => type === 'tool-call')).toEqual([
      { type: 'tool-call', toolCallId: 'toolu_b', name: 'find', arguments: '{}' },
      { type: 'tool-call', toolCallId: 'toolu_a', name: 'look', arguments: args },
    ]);
    expect(decoded.events.at(-1)).toEqual({ type: 'finish', finishReason: 'incomplete' });
  });

  it('does not change once it has ended', () => {
    const late = {
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'input_json_delta', partial_json: ',"b":2}' },
    };
    const decoded = decode([
      answer(
        [...call(0, 'toolu_a', 'look', '{"a":1}'), late, { type: 'content_block_stop', index: 0 }],
        'tool_use',
      ),
    ]);
    expect(decoded.events.filter(({ type }) => type === 'tool-call')).toHaveLength(1);
    expect(finishOf(decoded)?.finishReason).toBe('incomplete');
  });

  it('makes an incomplete answer when it has no name', () => {
    expect(decode([answer(call(0, 'toolu_a', '', '{}'), 'tool_use')]).events).toEqual([
      USED,
      { type: 'finish', finishReason: 'incomplete' },
    ]);
  });

  it('gets an id when it has none, or that of another call', () => {
    const { events } = decode([
      answer(
        [...call(0, 'toolu_a', 'look'), ...call(1, 'toolu_a', 'look'), ...call(2, '', 'look')],
        'tool_use',
      ),
    ]);
    const ids = events
      .filter((event) => event.type === 'tool-call')
      .map(({ toolCallId }) => toolCallId);
    expect(ids).toEqual([
      'toolu_a',
      expect.stringMatching(/^toolu_[0-9a-f]{32}$/),
      expect.stringMatching(/^toolu_[0-9a-f]{32}$/),
    ]);
    expect(new Set(ids).size).toBe(3);
  });

  it("is not the application's when the provider runs its tool, and is kept", () => {
    const search = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} };
    const found = {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [{ type: 'web_search_result', encrypted_content: 'x' }],
    };
    const decoded = decode([
      answer([
        ...block(0, search, { type: 'input_json_delta', partial_json: '{"query":"tea"}' }),
        ...block(1, found),
        ...text(2, 'Tea.'),
      ]),
    ]);
    expect(decoded.events.map(({ type }) => type)).toEqual([
      'provider-tool',
      'provider-tool',
      'text-delta',
      'usage',
      'finish',
    ]);
    expect(finishOf(decoded)?.providerData).toEqual({
      anthropic: {
        model: 'test-model',
        blocks: [{ ...search, input: { query: 'tea' } }, found, { type: 'text', length: 4 }],
      },
    });
  });
});

describe('what is kept for the model', () => {
  it('is nothing for one text and calls of its own', () => {
    expect(
      finishOf(decode([answer([...text(0, 'Hi'), ...call(1, 'toolu_a', 'look')], 'tool_use')])),
    ).not.toHaveProperty('providerData');
  });

  it('is every block in order, thinking with its signature, text and calls without what the message holds anyway', () => {
    const blocks = [
      ...thinking(0, 'Hm.', 's1=='),
      ...block(1, { type: 'redacted_thinking', data: 'x==' }),
      ...text(2, 'Héllo'),
      ...call(3, 'toolu_a', 'look', '{"secret":1}'),
    ];
    expect(finishOf(decode([answer(blocks, 'tool_use')]))?.providerData).toEqual({
      anthropic: {
        model: 'test-model',
        blocks: [
          { type: 'thinking', thinking: 'Hm.', signature: 's1==' },
          { type: 'redacted_thinking', data: 'x==' },
          { type: 'text', length: 5 },
          { type: 'tool_use', id: 'toolu_a' },
        ],
      },
    });
  });

  it('is where a text quotes from', () => {
    const citations = [1, 2].map((page) => ({ type: 'page_location', cited_text: `p${page}` }));
    const deltas = [
      { type: 'text_delta', text: 'Yes.' },
      ...citations.map((citation) => ({ type: 'citations_delta', citation })),
    ];
    const decoded = decode([
      answer(block(0, { type: 'text', text: '', citations: null }, ...deltas)),
    ]);
    expect(finishOf(decoded)?.providerData).toEqual({
      anthropic: { model: 'test-model', blocks: [{ type: 'text', length: 4, citations }] },
    });
  });

  it('is the container of code that the provider runs, who called a tool of ours from it, and a summary', () => {
    const caller = { type: 'code_execution_20260120', tool_id: 'srvtoolu_1' };
    const decoded = decode([
      sse(
        START,
        ...block(
          0,
          { type: 'compaction', content: null },
          { type: 'compaction_delta', content: 'So far.', encrypted_content: 'e' },
        ),
        ...block(1, { type: 'tool_use', id: 'toolu_a', name: 'look', input: { a: 1 }, caller }),
        {
          type: 'message_delta',
          delta: { stop_reason: 'tool_use', container: { id: 'container_1' } },
          usage: null,
        },
        STOP,
      ),
    ]);
    expect(finishOf(decoded)?.providerData).toEqual({
      anthropic: {
        model: 'test-model',
        container: 'container_1',
        blocks: [
          { type: 'compaction', content: 'So far.', encrypted_content: 'e' },
          { type: 'tool_use', id: 'toolu_a', caller },
        ],
      },
    });
  });

  it('is why it refused, and a thought without its end is not', () => {
    const details = { type: 'refusal', category: 'bio', explanation: 'No.' };
    const decoded = decode([
      sse(START, ...thinking(0, 'Hm.', 's').slice(0, -2), ...text(1, 'I'), {
        type: 'message_delta',
        delta: { stop_reason: 'refusal', stop_details: details },
      }),
    ]);
    expect(finishOf(decoded)).toEqual({
      type: 'finish',
      finishReason: 'content_filter',
      providerData: { anthropic: { model: 'test-model', refusal: details } },
    });
  });
});

describe('stop reasons', () => {
  it.each([
    ['end_turn', 'stop', 'tool_calls'],
    ['stop_sequence', 'stop', 'tool_calls'],
    ['tool_use', 'stop', 'tool_calls'],
    ['something_new', 'stop', 'tool_calls'],
    ['max_tokens', 'length', 'length'],
    ['model_context_window_exceeded', 'length', 'length'],
    ['refusal', 'content_filter', 'content_filter'],
    ['pause_turn', 'incomplete', 'tool_calls'],
    ['', 'incomplete', 'incomplete'],
    [null, 'incomplete', 'incomplete'],
  ])('%p is %s, and %s with calls', (reason, without, withCalls) => {
    const reasonOf = (events: object[]) => finishOf(decode([answer(events, reason)]))?.finishReason;
    expect([reasonOf([]), reasonOf(call(0, 'toolu_a', 'look'))]).toEqual([without, withCalls]);
  });

  it('count though the last event is missing', () => {
    expect(finishOf(decode([answer(text(0, 'Hi')).replace(sse(STOP), '')]))?.finishReason).toBe(
      'stop',
    );
  });
});

describe('usage', () => {
  it('is the last count of each kind, the cache counted as input, and is never added up', () => {
    const usage = {
      input_tokens: 5,
      cache_read_input_tokens: 10,
      cache_creation_input_tokens: null,
      output_tokens: 7,
      output_tokens_details: { thinking_tokens: 2 },
      cost: 0.02, // of a gateway
    };
    const begun = {
      ...START,
      message: {
        ...START.message,
        usage: { input_tokens: 4, cache_creation_input_tokens: 100, output_tokens: 1 },
      },
    };
    const { events } = decode([
      sse(begun, { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage }, STOP),
    ]);
    expect(events[0]).toEqual({
      type: 'usage',
      usage: {
        inputTokens: 115,
        outputTokens: 7,
        cachedInputTokens: 10,
        cacheWriteInputTokens: 100,
        reasoningTokens: 2,
        costUsd: 0.02,
      },
    });
  });

  it('is left out where nothing was counted', () => {
    expect(
      decode([
        sse(
          { ...START, message: {} },
          { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
          STOP,
        ),
      ]).events,
    ).toEqual([END]);
  });
});

describe('odd events', () => {
  it.each([
    ['a ping', { type: 'ping' }],
    ['a kind that is not known', { type: 'shiny', x: 1 }],
    [
      'a kind of delta that is not known',
      { type: 'content_block_delta', index: 0, delta: { type: 'shiny_delta', shine: 1 } },
    ],
    ['a delta that is null', { type: 'content_block_delta', index: 0, delta: null }],
    ['a block that is null', { type: 'content_block_start', index: 9, content_block: null }],
    ['an end of nothing', { type: 'content_block_stop', index: 9 }],
    [
      'a text that is a number',
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 5 } },
    ],
    ['a message_delta with nothing', { type: 'message_delta' }],
    ['nothing', {}],
    ['a list', []],
  ])('say nothing when they hold %s', (_what, odd) => {
    const [start, ...rest] = text(0, 'Hi');
    expect(decode([answer([start ?? {}, odd, ...rest])])).toEqual({
      events: [{ type: 'text-delta', text: 'Hi' }, USED, END],
      failure: undefined,
    });
  });

  it('say nothing when they are keep-alives of a server', () => {
    expect(
      textOf(
        decode([
          'data:\n\ndata: ping\n\n: comment\n\nevent: ping\n\n',
          answer(text(0, 'Hi')),
          'data: [DONE]\n\n',
        ]),
      ),
    ).toBe('Hi');
  });

  it('leave an incomplete answer when they do not parse', () => {
    expect(decode([`data: {"type":"content_bl\n\n${answer(text(0, 'Hi'))}`]).events).toEqual([
      { type: 'text-delta', text: 'Hi' },
      USED,
      { type: 'finish', finishReason: 'incomplete' },
    ]);
  });

  it('leave an incomplete answer when the beginning of their block was lost', () => {
    expect(finishOf(decode([answer(text(0, 'Hi').slice(1))]))?.finishReason).toBe('incomplete');
  });

  it('are not read behind the end', () => {
    expect(textOf(decode([answer(text(0, 'Hi')), sse(...text(1, ' there'))]))).toBe('Hi');
  });

  it('fail when they begin a second message', () => {
    const { events, failure } = decode([
      sse(START, ...text(0, 'Hi'), START, ...text(0, 'again'), STOP),
    ]);
    expect(events).toEqual([{ type: 'text-delta', text: 'Hi' }]);
    expect(failure?.message).toBe('The provider began a second message in one answer.');
  });
});

describe('errors of a provider', () => {
  it.each([
    ['overloaded_error', 529, true],
    ['rate_limit_error', 429, true],
    ['api_error', 500, true],
    ['timeout_error', 504, true],
    ['invalid_request_error', 400, false],
    ['authentication_error', 401, false],
    ['new_error', undefined, false],
  ])('end the answer when they are of the kind %s', (type, status, retryable) => {
    const error = { type: 'error', error: { type, message: 'It says why.' }, request_id: 'req_1' };
    const { events, failure } = decode([sse(START, ...text(0, 'Hi'), error, STOP)]);
    expect(events).toEqual([{ type: 'text-delta', text: 'Hi' }]);
    expect(failure?.message).toBe(
      `The provider reported an error: ${type}: It says why. (request req_1)`,
    );
    expect([failure?.status, failure?.isRetryable]).toEqual([status, retryable]);
  });

  it.each([
    ['{"message":"Busy."}', 'Busy.'],
    ['Busy.', 'Busy.'],
    ['{"error":{}}', 'It does not say why.'],
  ])('are read from an error event of a proxy: %s', (payload, message) => {
    expect(decode([`event: error\ndata: ${payload}\n\n`]).failure?.message).toBe(
      `The provider reported an error: ${message}`,
    );
  });

  it('are cut to a length a log can bear', () => {
    const error = { type: 'x'.repeat(10_000), message: 'x'.repeat(10_000) };
    expect(
      decode([sse({ type: 'error', error, request_id: 'x'.repeat(10_000) })]).failure?.message
        .length,
    ).toBeLessThan(800);
  });
});

describe('a body that is no event stream', () => {
  it.each([
    ['a page', '<!DOCTYPE html><html></html>', 'The server answered with HTML'],
    ['a text', 'upstream connect error\n', 'The server answered with text'],
    ['other JSON', '{"object":"list","data":[]}', 'The server answered with other JSON'],
    ['a list', '[1]', 'The provider sent a JSON body that is not valid.'],
    [
      'half a JSON',
      '{"type":"message","content":[',
      'The provider sent a JSON body that is not valid.',
    ],
    [
      'an error',
      '{"type":"error","error":{"type":"not_found_error","message":"No such model."}}',
      'not_found_error: No such model.',
    ],
  ])('%s fails', (_what, body, message) => {
    const { events, failure } = decode([body.slice(0, 3), body.slice(3)]);
    expect(events).toEqual([]);
    expect(failure?.message).toContain(message);
  });

  it('may be a whole answer behind the blanks that kept the connection open', () => {
    const content = [
      { type: 'thinking', thinking: 'Hm.', signature: 's' },
      { type: 'text', text: 'Hi' },
      { type: 'tool_use', id: 'toolu_a', name: 'look', input: { a: 1 } },
    ];
    const body = {
      type: 'message',
      content,
      stop_reason: 'tool_use',
      usage: { input_tokens: 3, output_tokens: 4 },
    };
    expect(decode(['\n  \n', '   ', JSON.stringify(body)]).events).toEqual([
      { type: 'reasoning-delta', text: 'Hm.' },
      { type: 'text-delta', text: 'Hi' },
      { type: 'tool-call', toolCallId: 'toolu_a', name: 'look', arguments: '{"a":1}' },
      USED,
      {
        type: 'finish',
        finishReason: 'tool_calls',
        providerData: {
          anthropic: {
            model: 'test-model',
            blocks: [content[0], { type: 'text', length: 2 }, { type: 'tool_use', id: 'toolu_a' }],
          },
        },
      },
    ]);
  });

  it('is incomplete when nothing came at all', () => {
    expect(decode([])).toEqual({
      events: [{ type: 'finish', finishReason: 'incomplete' }],
      failure: undefined,
    });
  });
});

describe('an endless line', () => {
  const megabyte = 'x'.repeat(1024 * 1024);

  it.each([
    ['of an event', 'data: '],
    ['of a body', '{"content":"'],
  ])('%s fails after 16 MB, and nothing more is kept', (_what, start) => {
    const { failure } = decode([start, ...Array.from({ length: 17 }, () => megabyte)]);
    expect(failure?.message).toBe('The provider sent an event of more than 16777216 characters.');
    expect(failure?.isRetryable).toBe(false);
  });
});
