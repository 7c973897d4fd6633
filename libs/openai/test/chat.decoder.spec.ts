import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { chunk, decode, joined, sse, textOf } from './decode.js';

const STOP = chunk({}, 'stop');
const END = { type: 'finish', finishReason: 'stop' };

describe('deltas of one network read', () => {
  it('become one event, however many they are', () => {
    const words = Array.from({ length: 2000 }, (_, index) => chunk({ content: `${index} ` }));
    const { events } = decode([sse(...words, STOP)]);
    expect(events).toEqual([
      {
        type: 'text-delta',
        text: Array.from({ length: 2000 }, (_, index) => `${index} `).join(''),
      },
      END,
    ]);
  });

  it('stay apart where the kind changes, and keep their order', () => {
    const { events } = decode([
      sse(
        chunk({ reasoning: 'a' }),
        chunk({ content: 'b' }),
        chunk({ reasoning: 'c', content: '' }),
        chunk({ reasoning: 'd' }),
        STOP,
      ),
    ]);
    expect(events).toEqual([
      { type: 'reasoning-delta', text: 'a' },
      { type: 'text-delta', text: 'b' },
      { type: 'reasoning-delta', text: 'cd' },
      { ...END, providerData: { openai: { model: 'test-model', reasoning: 'acd' } } },
    ]);
  });

  it('are handed out with the read they came in', () => {
    const [one, two] = [sse(chunk({ content: 'one' })), sse(chunk({ content: 'two' }, 'stop'))].map(
      (text) => text.replace('data: [DONE]\n\n', ''),
    );
    expect(decode([one ?? '', two ?? '']).events).toEqual([
      { type: 'text-delta', text: 'one' },
      { type: 'text-delta', text: 'two' },
      END,
    ]);
  });
});

describe('bytes', () => {
  it('mean the same where a read ends in the name of an event behind another one', () => {
    const text = `data: ${JSON.stringify(chunk({ content: 'Hi' }))}\n\nevent: error\ndata: {"error":{"message":"Overloaded."}}\n\n`;
    const name = text.indexOf('event: ');
    for (let cut = name; cut < name + 'event: error\n'.length; cut += 1) {
      const decoded = decode([text.slice(0, cut), text.slice(cut)]);
      expect([textOf(decoded), decoded.failure?.message]).toEqual([
        'Hi',
        'The provider reported an error: Overloaded.',
      ]);
    }
  });

  it('mean the same wherever they are cut and however lines end', () => {
    const text = sse(
      chunk({ reasoning_content: 'Ünï ' }),
      chunk({ content: 'A “quoted” 🚚' }),
      chunk({
        tool_calls: [
          { index: 0, id: 'call_a', function: { name: 'look', arguments: '{"at":"\u2028é"}' } },
        ],
      }),
      chunk({}, 'tool_calls', { usage: { prompt_tokens: 3, completion_tokens: 4 } }),
    );
    const whole = joined(decode([text]).events);
    expect(whole).toHaveLength(6);
    fc.assert(
      fc.property(
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.array(fc.nat(40), { maxLength: 60 }),
        fc.boolean(),
        (lineEnd, sizes, hasMark) => {
          const bytes = Buffer.from((hasMark ? '\ufeff' : '') + text.replaceAll('\n', lineEnd));
          const reads: Uint8Array[] = [];
          let at = 0;
          for (const size of sizes) reads.push(bytes.subarray(at, (at += size)));
          reads.push(bytes.subarray(at));
          expect(joined(decode(reads).events)).toEqual(whole);
        },
      ),
    );
  });
});

describe('odd chunks', () => {
  it.each([
    ['choices: null', { choices: null }],
    ['choices that are no list', { choices: { 0: chunk({ content: 'no' }) } }],
    ['a choice that is null', { choices: [null] }],
    ['delta: null', { choices: [{ index: 0, delta: null }] }],
    ['tool_calls: null', chunk({ tool_calls: null })],
    ['tool_calls that are no list', chunk({ tool_calls: { index: 0 } })],
    ['an empty place in tool_calls', chunk({ tool_calls: [null] })],
    ['content that is a number', chunk({ content: 5 })],
    [
      'parts that are no parts',
      chunk({ content: [null, 'no', { type: 'text' }, { type: 'thinking', thinking: null }] }),
    ],
    ['usage without numbers', { choices: [], usage: { prompt_tokens: 'many' } }],
    ['error: null', chunk({}, null, { error: null })],
    ['nothing', {}],
    ['a list', []],
  ])('say nothing when they hold %s', (_what, odd) => {
    expect(decode([sse(chunk({ content: 'Hi' }), odd, STOP)])).toEqual({
      events: [{ type: 'text-delta', text: 'Hi' }, END],
      failure: undefined,
    });
  });

  it('leave holes in tool_calls out', () => {
    const { events } = decode([
      sse(
        chunk({
          tool_calls: [
            null,
            { index: 2, id: 'call_c', function: { name: 'look', arguments: '{}' } },
          ],
        }),
        STOP,
      ),
    ]);
    expect(events.filter((event) => event.type === 'tool-call')).toEqual([
      { type: 'tool-call', toolCallId: 'call_c', name: 'look', arguments: '{}' },
    ]);
  });

  it('say nothing when they are keep-alives of a server', () => {
    expect(
      textOf(
        decode([
          'data:\n\ndata: ping\n\n: comment\n\nevent: ping\n\n',
          sse(chunk({ content: 'Hi' }), STOP),
        ]),
      ),
    ).toBe('Hi');
  });

  it('leave an incomplete answer when they do not parse', () => {
    const { events, failure } = decode([
      `data: {"choices":[{"delta":{"content":"lo\n\n${sse(chunk({ content: 'st' }), STOP)}`,
    ]);
    expect(events).toEqual([
      { type: 'text-delta', text: 'st' },
      { type: 'finish', finishReason: 'incomplete' },
    ]);
    expect(failure).toBeUndefined();
  });

  it('are not read behind [DONE]', () => {
    expect(
      textOf(decode([sse(chunk({ content: 'Hi' }, 'stop')), sse(chunk({ content: ' there' }))])),
    ).toBe('Hi');
  });

  it('fail a complete answer, and vanish from a cut one, when their call has no name', () => {
    const nameless = chunk({
      tool_calls: [{ index: 0, id: 'call_a', function: { arguments: '{}' } }],
    });
    expect(decode([sse(nameless, STOP)]).failure?.message).toBe(
      'The provider sent a tool call without a name.',
    );
    expect(decode([sse(nameless)]).events).toEqual([
      { type: 'finish', finishReason: 'incomplete' },
    ]);
  });
});

describe('a made id', () => {
  it('is short enough for OpenAI, and the same in delta and call', () => {
    const { events } = decode([
      sse(chunk({ tool_calls: [{ function: { name: 'look', arguments: '{"a":1}' } }] }), STOP),
    ]);
    const ids = events
      .filter((event) => event.type === 'tool-call' || event.type === 'tool-call-delta')
      .map((event) => event.toolCallId);
    expect(ids).toEqual([expect.stringMatching(/^call_[0-9a-f]{32}$/), ids[0]]);
    expect(ids[0]?.length).toBeLessThanOrEqual(40);
  });
});

describe('finish reasons', () => {
  it.each([
    ['stop', 'stop', 'tool_calls'],
    ['eos_token', 'stop', 'tool_calls'],
    ['tool_calls', 'stop', 'tool_calls'],
    ['function_call', 'stop', 'tool_calls'],
    ['something_new', 'stop', 'tool_calls'],
    ['length', 'length', 'length'],
    ['content_filter', 'content_filter', 'content_filter'],
    ['error', 'incomplete', 'incomplete'],
    ['abort', 'incomplete', 'incomplete'],
    ['', 'incomplete', 'incomplete'],
  ])('"%s" is %s, and %s with calls', (reason, without, withCalls) => {
    const call = chunk({
      tool_calls: [{ index: 0, id: 'call_a', function: { name: 'look', arguments: '{}' } }],
    });
    const reasonOf = (...chunks: object[]) =>
      decode([sse(...chunks, chunk({}, reason))]).events.find((event) => event.type === 'finish')
        ?.finishReason;
    expect([reasonOf(), reasonOf(call)]).toEqual([without, withCalls]);
  });
});

describe('errors of a provider', () => {
  it.each([
    ['a status', { error: { message: 'Busy.', code: 429 } }, 429, true],
    ['a status in words', { error: { message: 'No.', code: '400' } }, 400, false],
    [
      'a type that passes',
      { error: { message: 'Busy.', type: 'overloaded_error' } },
      undefined,
      true,
    ],
    [
      'a type that says nothing',
      { error: { message: 'No.', type: 'invalid_request_error', code: 'tool_use_failed' } },
      undefined,
      false,
    ],
    ['a text', { error: 'No.' }, undefined, false],
  ])('end the answer when they hold %s', (_what, payload, status, retryable) => {
    const { events, failure } = decode([sse(chunk({ content: 'Hi' }), payload, STOP)]);
    expect(events).toEqual([{ type: 'text-delta', text: 'Hi' }]);
    expect(failure?.message).toMatch(/^The provider reported an error: (\w+: )?(Busy|No)\.$/);
    expect([failure?.status, failure?.isRetryable]).toEqual([status, retryable]);
  });

  it.each([
    ['{"error":{"message":"Busy.","code":503}}', 503],
    ['{"message":"Busy.","code":503}', 503],
    ['Busy.', undefined],
  ])('are read from an error event: %s', (payload, status) => {
    const { failure } = decode([`event: error\ndata: ${payload}\n\n`]);
    expect(failure?.message).toBe('The provider reported an error: Busy.');
    expect(failure?.status).toBe(status);
  });

  it('are cut to a length a log can bear', () => {
    expect(decode([sse({ error: 'x'.repeat(10_000) })]).failure?.message.length).toBeLessThan(600);
  });
});

describe('a body that is no event stream', () => {
  it.each([
    ['a page', '<!DOCTYPE html><html></html>', 'The server answered with HTML'],
    ['a text', 'upstream connect error\n', 'The server answered with text'],
    ['other JSON', '{"object":"list","data":[]}', 'The server answered with other JSON'],
    ['half a JSON', '{"choices":[{"message"', 'The provider sent a JSON body that is not valid.'],
    [
      'an error',
      '{"error":{"message":"No such model.","code":404}}',
      'The provider reported an error: No such model.',
    ],
    [
      'an error in a list',
      '[{"error":{"code":400,"message":"Bad.","status":"INVALID_ARGUMENT"}}]\n',
      'The provider reported an error: Bad.',
    ],
  ])('%s fails', (_what, body, message) => {
    const { events, failure } = decode([body.slice(0, 3), body.slice(3)]);
    expect(events).toEqual([]);
    expect(failure?.message).toContain(message);
  });

  it('may be a whole answer behind the blanks that kept the connection open', () => {
    const body = { choices: [{ message: { content: 'Hi' }, finish_reason: 'stop' }] };
    expect(decode(['\n  \n', '   ', JSON.stringify(body)]).events).toEqual([
      { type: 'text-delta', text: 'Hi' },
      END,
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
    ['of a body', '{"choices":"'],
  ])('%s fails after 16 MB, and nothing more is kept', (_what, start) => {
    const { failure } = decode([start, ...Array.from({ length: 17 }, () => megabyte)]);
    expect(failure?.message).toBe('The provider sent an event of more than 16777216 characters.');
    expect(failure?.isRetryable).toBe(false);
  });

  it('is read when it is below the limit', () => {
    const [head, tail] = sse(chunk({ content: '@' }, 'stop')).split('@');
    const megabytes = Array.from({ length: 5 }, () => megabyte);
    expect(textOf(decode([head ?? '', ...megabytes, tail ?? '']))).toHaveLength(5 * 1024 * 1024);
  });
});
