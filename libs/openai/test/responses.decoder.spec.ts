import { describe, expect, it } from '@jest/globals';
import { decode, sse, textOf } from './decode.js';

function delta(text: string): object {
  return { type: 'response.output_text.delta', output_index: 0, delta: text };
}

function done(item: object, index = 0): object {
  return { type: 'response.output_item.done', output_index: index, item };
}

function ended(response: object = {}): object {
  return { type: 'response.completed', response: { status: 'completed', output: [], ...response } };
}

const CALL = { type: 'function_call', call_id: 'call_a', name: 'look', arguments: '{}' };

describe('a response', () => {
  it('is one event when 2,000 deltas come in one read', () => {
    const words = Array.from({ length: 2000 }, (_, index) => `${index} `);
    expect(decode([sse(...words.map(delta), ended())], 'responses').events).toEqual([
      { type: 'text-delta', text: words.join('') },
      { type: 'finish', finishReason: 'stop' },
    ]);
  });

  it('ends at its last event, and nothing behind it is read', () => {
    expect(textOf(decode([sse(delta('Hi'), ended(), delta(' there'))], 'responses'))).toBe('Hi');
  });

  it('is not whole when a payload does not parse, so that its calls do not run', () => {
    const broken = 'event: response.output_text.delta\ndata: {"type":\n\n';
    expect(decode([broken + sse(done(CALL), ended())], 'responses').events.at(-1)).toEqual({
      type: 'finish',
      finishReason: 'incomplete',
    });
  });

  it('does not suffer from a broken event that says nothing of its own', () => {
    const broken = 'event: response.created\ndata: {"type":\n\n';
    expect(decode([broken + sse(delta('Hi'), ended())], 'responses').events.at(-1)).toEqual({
      type: 'finish',
      finishReason: 'stop',
    });
  });

  it('fails when it holds a call without a name, and loses the call when it is cut', () => {
    const nameless = done({ ...CALL, name: undefined });
    expect(decode([sse(nameless, ended())], 'responses').failure?.message).toBe(
      'The provider sent a tool call without a name.',
    );
    expect(decode([sse(nameless)], 'responses').events).toEqual([
      { type: 'finish', finishReason: 'incomplete' },
    ]);
  });

  it('gives two calls with one id different ids', () => {
    const { events } = decode([sse(done(CALL), done(CALL, 1), ended())], 'responses');
    const ids = events.flatMap((event) => (event.type === 'tool-call' ? [event.toolCallId] : []));
    expect(ids).toEqual(['call_a', expect.stringMatching(/^call_[0-9a-f]{32}$/)]);
  });

  it.each([
    ['completed', undefined, 'stop', 'tool_calls'],
    [undefined, undefined, 'stop', 'tool_calls'],
    ['incomplete', { reason: 'max_output_tokens' }, 'length', 'length'],
    ['incomplete', { reason: 'content_filter' }, 'content_filter', 'content_filter'],
    ['incomplete', { reason: 'something_new' }, 'incomplete', 'incomplete'],
    ['incomplete', null, 'incomplete', 'incomplete'],
    ['cancelled', null, 'incomplete', 'incomplete'],
    ['in_progress', null, 'incomplete', 'incomplete'],
  ])(
    'has, with status %s and details %j, the finish reason %s, and %s with calls',
    (status, details, without, withCalls) => {
      const end = ended({ status, incomplete_details: details });
      const reasonOf = (...items: object[]) =>
        decode([sse(...items, end)], 'responses').events.find((event) => event.type === 'finish')
          ?.finishReason;
      expect([reasonOf(), reasonOf(done(CALL))]).toEqual([without, withCalls]);
    },
  );

  it.each([
    [
      'text',
      'message',
      { role: 'assistant', content: [{ type: 'output_text', text: 'Hi', annotations: [] }] },
      false,
    ],
    ['a call', 'function_call', { ...CALL }, false],
    ['a call in a namespace', 'function_call', { ...CALL, namespace: 'crm' }, true],
    [
      'a citation',
      'message',
      {
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Hi', annotations: [{ url: 'x' }] }],
      },
      true,
    ],
    ['reasoning', 'reasoning', { encrypted_content: 'x' }, true],
    ['a search', 'web_search_call', {}, true],
    ['an item of tomorrow', 'of_tomorrow', {}, true],
  ])(
    'keeps, with %s, its output only where text and calls do not hold all of it',
    (_what, type, rest, isKept) => {
      const item = { type, ...rest };
      const finish = decode([sse(done(item), ended())], 'responses').events.find(
        (event) => event.type === 'finish',
      );
      expect(finish?.providerData).toEqual(
        isKept ? { openai: { model: 'test-model', output: [item] } } : undefined,
      );
    },
  );

  it.each([
    ['an error event', { type: 'error', code: 'server_error', message: 'Busy.' }, true],
    [
      'an error event round an error',
      { type: 'error', error: { type: 'insufficient_quota', message: 'Busy.' } },
      false,
    ],
    [
      'a failed response',
      {
        type: 'response.failed',
        response: { status: 'failed', error: { code: 'rate_limit_exceeded', message: 'Busy.' } },
      },
      true,
    ],
    ['an error without a type', { error: { code: 503, message: 'Busy.' } }, true],
  ])('fails for %s, and what came before is handed out', (_what, payload, retryable) => {
    const { events, failure } = decode([sse(delta('Hi'), payload, ended())], 'responses');
    expect(events).toEqual([{ type: 'text-delta', text: 'Hi' }]);
    expect(failure?.message).toMatch(/^The provider reported an error: (\w+: )?Busy\.$/);
    expect(failure?.isRetryable).toBe(retryable);
  });
});
