import { describe, expect, it } from '@jest/globals';
import { chunk, decode, sse, textOf } from './decode.js';
import { finishOf } from '../../wire/test/decoded.js';

function used(input: number): object {
  return { prompt_tokens: input, completion_tokens: 1, total_tokens: input + 1 };
}

describe('a finish reason', () => {
  it.each([
    ['in every chunk', ['stop', 'stop', 'stop'], 'stop'],
    ['and then none', ['length', null, undefined, ''], 'length'],
    ['and then another', ['stop', 'length'], 'length'],
    ['of Gemini', ['MAX_TOKENS'], 'length'],
    ['of Gemini, in the way of its safety', ['SAFETY'], 'content_filter'],
    ['of Gemini, for a call that failed', ['MALFORMED_FUNCTION_CALL'], 'incomplete'],
    ['of Anthropic', ['end_turn'], 'stop'],
    ['of Anthropic, where it refused', ['refusal'], 'content_filter'],
    ['of text-generation-inference', ['eos_token'], 'stop'],
  ])('%s counts as it was said last', (_what, reasons, expected) => {
    expect(
      finishOf(decode([sse(...reasons.map((reason) => chunk({}, reason)))]))?.finishReason,
    ).toBe(expected);
  });
});

describe('the cost of an answer', () => {
  it.each<[string, object, object]>([
    ['as a number', { cost: 0.000784, is_byok: false }, { costUsd: 0.000784 }],
    ['as zero, which is a cost', { cost: 0 }, { costUsd: 0 }],
    [
      'beside that of the provider with a key of one’s own',
      { cost: 0.001, is_byok: true, cost_details: { upstream_inference_cost: 0.02 } },
      { costUsd: 0.021 },
    ],
    ['as an object', { cost: { input_tokens_cost: 0.1, total_cost: 0.25 } }, { costUsd: 0.25 }],
    ['in ticks', { cost_in_usd_ticks: 1_330_500 }, { costUsd: 0.00013305 }],
    ['as a text, which is none', { cost: '0.1' }, {}],
    ['below zero, which is none', { cost: -1 }, {}],
    [
      'with what was written to the cache',
      { prompt_tokens_details: { cache_write_tokens: 2 } },
      { cacheWriteInputTokens: 2 },
    ],
    [
      'with what was written to the cache, beside the details',
      { cache_creation_input_tokens: 2 },
      { cacheWriteInputTokens: 2 },
    ],
  ])('is read %s', (_how, reported, expected) => {
    const { events } = decode([
      sse(chunk({ content: 'Hi' }, 'stop'), { choices: [], usage: { ...used(3), ...reported } }),
    ]);
    expect(events).toContainEqual({
      type: 'usage',
      usage: { inputTokens: 3, outputTokens: 1, ...expected },
    });
  });
});

describe('usage', () => {
  it.each([
    ['in a chunk without choices', [chunk({}, 'stop'), { choices: [], usage: used(3) }], 3],
    [
      'in a chunk without a list of choices',
      [chunk({}, 'stop'), { choices: null, usage: used(3) }],
      3,
    ],
    ['in a chunk that has no choices at all', [chunk({}, 'stop'), { usage: used(3) }], 3],
    [
      'in every chunk, never added up',
      [
        chunk({}, null, { usage: used(1) }),
        chunk({}, 'stop', { usage: used(2) }),
        { choices: [], usage: used(3) },
      ],
      3,
    ],
    ['and then null', [chunk({}, 'stop', { usage: used(3) }), { choices: [], usage: null }], 3],
    ['before anything else', [{ choices: [], usage: used(3) }, chunk({}, 'stop')], 3],
    ['of groq', [chunk({}, 'stop', { x_groq: { usage: used(3) } })], 3],
    [
      'of groq beside its own',
      [chunk({}, 'stop', { x_groq: { usage: used(9) }, usage: used(3) })],
      3,
    ],
    [
      'in the choice',
      [{ choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: used(3) }] }],
      3,
    ],
    [
      'in the choice beside its own, in any order',
      [
        { choices: [], usage: used(3) },
        { choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: used(9) }] },
      ],
      3,
    ],
    ['nowhere', [chunk({}, 'stop')], undefined],
  ])('%s', (_what, chunks, expected) => {
    const usage = decode([sse(...chunks)]).events.find((event) => event.type === 'usage')?.usage;
    expect(usage?.inputTokens).toBe(expected);
  });
});

describe('what is said', () => {
  it.each([
    ['a text', [{ content: 'Hi' }], 'Hi', ''],
    [
      'parts',
      [
        {
          content: [
            { type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] },
            { type: 'text', text: 'Hi' },
          ],
        },
      ],
      'Hi',
      'Hm',
    ],
    ['null and nothing', [{ content: null }, {}, { content: '' }, { content: 'Hi' }], 'Hi', ''],
    ['in a choice with another index', [{ content: 'Hi' }], 'Hi', ''],
    ['with reasoning_content', [{ reasoning_content: 'Hm' }, { content: 'Hi' }], 'Hi', 'Hm'],
    ['with reasoning', [{ reasoning: 'Hm' }, { content: 'Hi', reasoning: null }], 'Hi', 'Hm'],
    ['with both', [{ reasoning: 'Hm', reasoning_content: 'Hm' }, { content: 'Hi' }], 'Hi', 'Hm'],
    [
      'with an empty one and a full one',
      [{ reasoning: 'Hm', reasoning_content: '' }, { content: 'Hi' }],
      'Hi',
      'Hm',
    ],
    [
      'with reasoning and its details',
      [
        { reasoning: 'Hm', reasoning_details: [{ type: 'reasoning.text', text: 'Hm' }] },
        { content: 'Hi' },
      ],
      'Hi',
      'Hm',
    ],
    ['with a refusal that is null', [{ content: 'Hi', refusal: null }], 'Hi', ''],
  ])('%s', (_what, deltas, text, reasoning) => {
    const decoded = decode([
      sse(...deltas.map((delta, index) => ({ choices: [{ index, delta }] })), chunk({}, 'stop')),
    ]);
    const thought = decoded.events
      .map((event) => (event.type === 'reasoning-delta' ? event.text : ''))
      .join('');
    expect([textOf(decoded), thought, decoded.failure]).toEqual([text, reasoning, undefined]);
  });

  it('is ignored in any other choice than the first', () => {
    const two = {
      choices: [
        { index: 0, delta: { content: 'Hi' } },
        { index: 1, delta: { content: 'no' }, finish_reason: 'length' },
      ],
    };
    const decoded = decode([sse(two, chunk({}, 'stop'))]);
    expect([textOf(decoded), finishOf(decoded)?.finishReason]).toEqual(['Hi', 'stop']);
  });

  it('is not text when it is a refusal', () => {
    const decoded = decode([
      sse(chunk({ refusal: 'I can' }), chunk({ refusal: 'not.' }), chunk({}, 'stop')),
    ]);
    expect(textOf(decoded)).toBe('');
    expect(finishOf(decoded)).toMatchObject({
      finishReason: 'content_filter',
      providerData: { openai: { refusal: 'I cannot.' } },
    });
  });

  it.each([
    [
      'beside choices',
      {
        choices: [{ delta: { content: '!' }, finish_reason: 'error' }],
        error: { code: 502, message: 'Bad.' },
      },
    ],
    [
      'in a choice',
      {
        choices: [
          {
            delta: { content: '!' },
            finish_reason: 'error',
            error: { code: 502, message: 'Bad.' },
          },
        ],
      },
    ],
  ])('is handed out when an error comes %s', (_where, broken) => {
    const decoded = decode([
      sse(chunk({ content: 'Hi' }, 'stop'), broken, chunk({ content: 'no' }, 'stop')),
    ]);
    expect(textOf(decoded)).toBe('Hi!');
    expect([decoded.failure?.status, decoded.failure?.isRetryable, finishOf(decoded)]).toEqual([
      502,
      true,
      undefined,
    ]);
  });
});
