import { describe, expect, it } from '@jest/globals';
import { decode, sse, textOf, type Decoded } from './decode.js';
import { finishOf } from '../../wire/test/decoded.js';

const MADE = expect.stringMatching(/^call_[0-9a-f]{32}$/) as unknown as string;

function call(id: string, rest: object = {}): object {
  return {
    type: 'function_call',
    id: `fc_${id}`,
    call_id: id,
    name: 'look',
    arguments: '{"x":1}',
    status: 'completed',
    ...rest,
  };
}

function message(text: string, id = 'msg_1'): object {
  return {
    type: 'message',
    id,
    role: 'assistant',
    content: [{ type: 'output_text', text, annotations: [] }],
  };
}

function event(name: string, rest: object): object {
  return { type: `response.${name}`, ...rest };
}

const added = (item: object, index?: number): object =>
  event('output_item.added', { output_index: index, item });
const done = (item: object, index?: number): object =>
  event('output_item.done', { output_index: index, item });
const said = (delta: string, rest: object = { output_index: 0 }): object =>
  event('output_text.delta', { delta, ...rest });
const completed = (...output: readonly object[]): object =>
  event('completed', { response: { status: 'completed', output } });

function read(...events: readonly object[]): Decoded {
  return decode([sse(...events)], 'responses');
}

function callsIn({ events }: Decoded): unknown[] {
  return events.flatMap((one) =>
    one.type === 'tool-call' ? [[one.toolCallId, one.arguments]] : [],
  );
}

function reasoningIn({ events }: Decoded): string {
  return events.map((one) => (one.type === 'reasoning-delta' ? one.text : '')).join('');
}

function thought(text: string, kind: 'summary' | 'content'): object {
  return { type: 'reasoning', id: 'rs_1', summary: [], [kind]: [{ text }] };
}

const EMPTY = { arguments: '' };
const A = ['a', '{"x":1}'];
const B = ['b', '{"x":1}'];

describe('the cost of a response', () => {
  it('is read with what was written to the cache', () => {
    const usage = {
      input_tokens: 3,
      input_tokens_details: { cache_write_tokens: 2 },
      output_tokens: 1,
      cost: 0.5,
    };
    const { events } = decode(
      [sse({ type: 'response.completed', response: { status: 'completed', output: [], usage } })],
      'responses',
    );
    expect(events).toContainEqual({
      type: 'usage',
      usage: { inputTokens: 3, outputTokens: 1, cacheWriteInputTokens: 2, costUsd: 0.5 },
    });
  });
});

describe('calls', () => {
  it.each([
    [
      'in items that are done, and no deltas',
      [done(call('a'), 0), done(call('b'), 1), completed()],
      [A, B],
    ],
    ['in the last event only', [completed(call('a'), call('b'))], [A, B]],
    ['in all places', [added(call('a', EMPTY), 0), done(call('a'), 0), completed(call('a'))], [A]],
    [
      'that come in another order than they count',
      [done(call('b'), 2), done(call('a'), 1), completed()],
      [A, B],
    ],
    [
      'whose arguments are done before the item',
      [
        added(call('a', EMPTY), 0),
        event('function_call_arguments.done', { output_index: 0, arguments: '{"x":1}' }),
        completed(),
      ],
      [A],
    ],
    [
      'whose arguments and name are told in the end only',
      [
        event('function_call_arguments.done', {
          output_index: 0,
          item_id: 'fc_a',
          name: 'look',
          arguments: '{"x":1}',
        }),
        completed(),
      ],
      [[MADE, '{"x":1}']],
    ],
    [
      'whose deltas say something else than their end',
      [
        added(call('a', EMPTY), 0),
        event('function_call_arguments.delta', { output_index: 0, delta: '{"x":9}' }),
        done(call('a'), 0),
        completed(),
      ],
      [A],
    ],
    [
      'whose end has no arguments',
      [
        added(call('a', EMPTY), 0),
        event('function_call_arguments.delta', { output_index: 0, delta: '{"x":1}' }),
        done(call('a', { arguments: null }), 0),
        completed(),
      ],
      [A],
    ],
    [
      'whose arguments are an object',
      [done(call('a', { arguments: { x: 1 } }), 0), completed()],
      [A],
    ],
    ['whose arguments are empty', [done(call('a', EMPTY), 0), completed()], [['a', '{}']]],
    [
      'without an id',
      [done(call('a', { call_id: undefined, id: undefined }), 0), completed()],
      [[MADE, '{"x":1}']],
    ],
    [
      'interleaved',
      [
        added(call('a', EMPTY), 0),
        added(call('b', EMPTY), 1),
        event('function_call_arguments.delta', { output_index: 1, delta: '{"x"' }),
        event('function_call_arguments.delta', { output_index: 0, delta: '{"x"' }),
        event('function_call_arguments.delta', { output_index: 1, delta: ':1}' }),
        event('function_call_arguments.delta', { output_index: 0, delta: ':1}' }),
        completed(),
      ],
      [A, B],
    ],
    [
      'interleaved by the ids of their items',
      [
        added(call('a', EMPTY)),
        added(call('b', EMPTY)),
        event('function_call_arguments.delta', { item_id: 'fc_b', delta: '{"x":1}' }),
        event('function_call_arguments.delta', { item_id: 'fc_a', delta: '{"x":1}' }),
        completed(),
      ],
      [A, B],
    ],
    [
      'in items that are done, without an index',
      [done(call('a')), done(call('b')), completed(call('a'), call('b'))],
      [A, B],
    ],
    [
      'in items that are done, without an index or a list in the end',
      [done(call('a')), done(call('b')), completed()],
      [A, B],
    ],
    [
      'of which all have the same index',
      [
        added(call('a', EMPTY), 0),
        done(call('a'), 0),
        added(call('b', EMPTY), 0),
        done(call('b'), 0),
        completed(call('a'), call('b')),
      ],
      [A, B],
    ],
    [
      'that count from 1 on the way and from 0 in the end',
      [done(call('a'), 1), done(call('b'), 2), completed(call('a'), call('b'))],
      [A, B],
    ],
    [
      'that are counted without the reasoning in the end',
      [
        done({ type: 'reasoning', id: 'rs_1', summary: [] }, 0),
        done(call('a'), 1),
        done(call('b'), 2),
        completed(call('a'), call('b')),
      ],
      [A, B],
    ],
    [
      'whose items have another id in each event',
      [
        added(call('a', { ...EMPTY, id: 'x1' }), 0),
        event('function_call_arguments.delta', {
          output_index: 0,
          item_id: 'x2',
          delta: '{"x":1}',
        }),
        done(call('a', { id: 'x3' }), 0),
        completed(call('a', { id: 'x4' })),
      ],
      [A],
    ],
    [
      'that are counted otherwise when they are done',
      [added(call('a', EMPTY), 0), done(call('a'), 1), completed(call('a'))],
      [A],
    ],
    [
      'that are counted otherwise when they are announced',
      [
        added(call('a', EMPTY), 0),
        event('function_call_arguments.delta', {
          output_index: 1,
          item_id: 'fc_a',
          delta: '{"x":1}',
        }),
        done(call('a'), 1),
        completed(call('a')),
      ],
      [A],
    ],
    [
      'that are announced where another item is',
      [
        done({ type: 'reasoning', id: 'rs_1', summary: [] }, 0),
        added({ type: 'reasoning', id: 'rs_2' }, 1),
        done({ type: 'reasoning', id: 'rs_2', summary: [] }, 1),
        added(call('a', EMPTY), 1),
        event('function_call_arguments.done', {
          output_index: 2,
          item_id: 'fc_a',
          arguments: '{"x":1}',
        }),
        done(call('a'), 2),
        completed(),
      ],
      [A],
    ],
    [
      'of which all have the same index and deltas no ids',
      [
        added(call('a', EMPTY), 0),
        event('function_call_arguments.delta', { output_index: 0, delta: '{"x":1}' }),
        done(call('a'), 0),
        added(call('b', EMPTY), 0),
        event('function_call_arguments.delta', { output_index: 0, delta: '{"x":1}' }),
        done(call('b'), 0),
        completed(call('a'), call('b')),
      ],
      [A, B],
    ],
    [
      'that are announced twice',
      [
        added(call('a', EMPTY), 0),
        added(call('a', EMPTY)),
        done(call('a'), 0),
        completed(call('a')),
      ],
      [A],
    ],
    [
      'that have no id and another name before they are done',
      [
        added(call('a', { ...EMPTY, call_id: undefined, name: 'find' }), 0),
        done(call('a'), 0),
        completed(call('a')),
      ],
      [A],
    ],
    [
      'that have another id when they are done',
      [added(call('a', EMPTY), 0), done(call('z'), 0), completed(call('y'))],
      [A],
    ],
    [
      'that have their id when they are done only',
      [added(call('a', { ...EMPTY, call_id: '' }), 0), done(call('a'), 0), completed()],
      [A],
    ],
    [
      'of which the last is missing on the way',
      [done(call('a'), 0), added(call('b', EMPTY), 1), completed(call('a'), call('b'))],
      [A, B],
    ],
  ])('%s', (_what, events, expected) => {
    const decoded = read(...events);
    expect([callsIn(decoded), decoded.failure]).toEqual([expected, undefined]);
    expect(finishOf(decoded)?.finishReason).toBe('tool_calls');
  });

  it.each(
    [
      'custom_tool_call local_shell_call shell_call apply_patch_call computer_call mcp_approval_request',
      'web_search_call file_search_call code_interpreter_call image_generation_call mcp_call mcp_list_tools tool_search_call tool_search_output',
      'function_call_output compaction of_tomorrow',
    ].flatMap((types) => types.split(' ')),
  )("are not the application's when they are of the kind %s", (type) => {
    const item = { type, id: 'x_1', call_id: 'call_x', name: 'look', arguments: '{}', input: 'x' };
    const decoded = read(
      added(item, 0),
      event(`${type}.in_progress`, { output_index: 0, item_id: 'x_1' }),
      event(`${type}_arguments.delta`, { output_index: 0, item_id: 'x_1', delta: '{}' }),
      event(`${type}_input.delta`, { output_index: 0, item_id: 'x_1', delta: 'x' }),
      event(`${type}.completed`, { output_index: 0, item_id: 'x_1' }),
      done(item, 0),
      said('Hi', { output_index: 1 }),
      completed(item, message('Hi')),
    );
    expect([callsIn(decoded), textOf(decoded), finishOf(decoded)?.finishReason]).toEqual([
      [],
      'Hi',
      'stop',
    ]);
  });
});

describe('what is said', () => {
  it.each([
    ['in deltas', [said('H'), said('i'), completed()], 'Hi', ''],
    ['in an item that is done', [done(message('Hi'), 0), completed()], 'Hi', ''],
    ['in the last event only', [completed(message('Hi'))], 'Hi', ''],
    [
      'in all places',
      [
        added(message(''), 0),
        said('Hi'),
        event('output_text.done', { text: 'Hi' }),
        done(message('Hi'), 0),
        completed(message('Hi')),
      ],
      'Hi',
      '',
    ],
    [
      'in all places, of which the last counts otherwise',
      [
        said('Hi', { output_index: 1, item_id: 'msg_1' }),
        done(message('Hi'), 1),
        completed(message('Hi')),
      ],
      'Hi',
      '',
    ],
    [
      'in all places, without indexes',
      [
        added(message('')),
        said('Hi', { item_id: 'msg_1' }),
        done(message('Hi')),
        completed(message('Hi')),
      ],
      'Hi',
      '',
    ],
    [
      'in two messages',
      [done(message('H'), 0), done(message('i', 'msg_2'), 1), completed()],
      'Hi',
      '',
    ],
    [
      'in two messages without indexes',
      [
        done(message('H')),
        done(message('i', 'msg_2')),
        completed(message('H'), message('i', 'msg_2')),
      ],
      'Hi',
      '',
    ],
    [
      'behind a summary of reasoning',
      [
        event('reasoning_summary_text.delta', { output_index: 0, delta: 'Hm' }),
        done(thought('Hm', 'summary'), 0),
        said('Hi', { output_index: 1 }),
        completed(),
      ],
      'Hi',
      'Hm',
    ],
    [
      'behind the text of reasoning',
      [
        event('reasoning_text.delta', { output_index: 0, delta: 'Hm' }),
        done(thought('Hm', 'content'), 0),
        said('Hi', { output_index: 1 }),
        completed(),
      ],
      'Hi',
      'Hm',
    ],
    [
      'behind reasoning that did not stream',
      [done(thought('Hm', 'content'), 0), said('Hi', { output_index: 1 }), completed()],
      'Hi',
      'Hm',
    ],
    [
      'behind reasoning that is encrypted',
      [
        done({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' }, 0),
        said('Hi', { output_index: 1 }),
        completed(),
      ],
      'Hi',
      '',
    ],
    [
      'behind events of tomorrow',
      [
        { type: 'keepalive' },
        event('queued', { response: {} }),
        event('of_tomorrow', { delta: 'no', output_index: 7 }),
        said('Hi'),
        completed(),
      ],
      'Hi',
      '',
    ],
    [
      'with annotations',
      [
        said('Hi'),
        event('output_text.annotation.added', { annotation: { type: 'url_citation' } }),
        completed(),
      ],
      'Hi',
      '',
    ],
    [
      'with a delta that is null',
      [said('Hi'), event('output_text.delta', { output_index: 0, delta: null }), completed()],
      'Hi',
      '',
    ],
  ])('%s', (_what, events, text, reasoning) => {
    const decoded = read(...events);
    expect([textOf(decoded), reasoningIn(decoded), finishOf(decoded)?.finishReason]).toEqual([
      text,
      reasoning,
      'stop',
    ]);
  });

  it.each([
    ['streamed', [event('refusal.delta', { output_index: 0, delta: 'No.' }), completed()]],
    [
      'done',
      [done({ ...message(''), content: [{ type: 'refusal', refusal: 'No.' }] }, 0), completed()],
    ],
  ])('is not text when it is a refusal that is %s', (_how, events) => {
    const decoded = read(...events);
    expect([textOf(decoded), finishOf(decoded)?.finishReason]).toEqual(['', 'content_filter']);
    expect(finishOf(decoded)?.providerData).toMatchObject({ openai: { refusal: 'No.' } });
  });
});

describe('the end', () => {
  it.each([
    ['completed', {}, 'tool_calls'],
    ['completed', { response: null }, 'tool_calls'],
    ['completed', { response: {} }, 'tool_calls'],
    [
      'completed',
      { response: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } } },
      'length',
    ],
    ['incomplete', {}, 'incomplete'],
    ['incomplete', { response: { incomplete_details: { reason: 'max_output_tokens' } } }, 'length'],
    [
      'incomplete',
      { response: { status: 'completed', incomplete_details: { reason: 'content_filter' } } },
      'content_filter',
    ],
    ['cancelled', {}, 'incomplete'],
    ['cancelled', { response: { status: 'completed' } }, 'incomplete'],
    ['in_progress', { response: { status: 'completed' } }, 'incomplete'],
    ['of_tomorrow', { response: { status: 'completed' } }, 'incomplete'],
  ])('%s with %j is %s', (name, rest, reason) => {
    const decoded = read(done(call('a'), 0), event(name, rest));
    expect([callsIn(decoded), finishOf(decoded)?.finishReason]).toEqual([[A], reason]);
  });

  it.each([
    ['failed', {}, 'It does not say why.'],
    ['failed', { response: { status: 'failed', error: null } }, 'It does not say why.'],
    [
      'failed',
      { response: { error: { code: 'server_error', message: 'Busy.' } } },
      'server_error: Busy.',
    ],
    ['failed', { response: { status: 'completed', error: 'Busy.' } }, 'Busy.'],
    ['completed', { response: { status: 'completed', error: 'Busy.' } }, 'Busy.'],
  ])('%s with %j fails', (name, rest, words) => {
    const decoded = read(done(call('a'), 0), event(name, rest));
    expect([callsIn(decoded), decoded.failure?.message]).toEqual([
      [],
      `The provider reported an error: ${words}`,
    ]);
  });

  it.each([
    ['completed', {}, 'incomplete'],
    ['incomplete', { response: { incomplete_details: { reason: 'max_output_tokens' } } }, 'length'],
  ])(
    '%s is %j with a call that was announced and nothing more, which does not run',
    (name, rest, reason) => {
      const decoded = read(done(call('a'), 0), added(call('b', EMPTY), 1), event(name, rest));
      expect([callsIn(decoded), finishOf(decoded)?.finishReason]).toEqual([
        [A, ['b', '{}']],
        reason,
      ]);
    },
  );

  it('is missing when no terminal event comes, whatever [DONE] says', () => {
    expect(finishOf(read(done(call('a'), 0)))?.finishReason).toBe('incomplete');
  });

  it('counts what was used, once', () => {
    const response = {
      status: 'completed',
      usage: { input_tokens: 3, output_tokens: 4, input_tokens_details: null },
    };
    const { events } = read(
      event('created', { response: { usage: { input_tokens: 9 } } }),
      event('completed', { response }),
    );
    expect(events[0]).toEqual({ type: 'usage', usage: { inputTokens: 3, outputTokens: 4 } });
  });
});
