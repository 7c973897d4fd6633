import { describe, expect, it } from '@jest/globals';
import {
  answer,
  block,
  call,
  decode,
  finishOf,
  sse,
  START,
  STOP,
  text,
  textOf,
  thinking,
  type Decoded,
} from './decode.js';

const MADE = expect.stringMatching(/^toolu_[0-9a-f]{32}$/) as unknown as string;

const TOOL = { type: 'tool_use', id: 'a', name: 'look', input: {} };
const json = (piece: string): object => ({ type: 'input_json_delta', partial_json: piece });

function begun(content: readonly object[], rest: object = {}): object {
  return { ...START, message: { ...START.message, content, ...rest } };
}

function ended(reason: string | null, usage?: object): object {
  return { type: 'message_delta', delta: { stop_reason: reason }, usage };
}

function callsIn({ events }: Decoded): unknown[] {
  return events.flatMap((event) =>
    event.type === 'tool-call' ? [[event.toolCallId, event.name, event.arguments]] : [],
  );
}

function reasoningIn({ events }: Decoded): string {
  return events.map((event) => (event.type === 'reasoning-delta' ? event.text : '')).join('');
}

function usageIn({ events }: Decoded): object | undefined {
  return events.find((event) => event.type === 'usage')?.usage;
}

/** The block of a call whose index was left out. */
function withoutIndex(events: readonly object[]): object[] {
  return events.map((event) => ({ ...event, index: undefined }));
}

describe('calls', () => {
  const [startA, ...restA] = block(0, TOOL, json('{"x"'), json(':1}'));
  const [startB, ...restB] = block(
    1,
    { ...TOOL, id: 'b', name: 'find' },
    json('{"y"'),
    json(':2}'),
  );
  const both = [
    ['a', 'look', '{"x":1}'],
    ['b', 'find', '{"y":2}'],
  ];

  it.each([
    ['in turn', [startA, ...restA, startB, ...restB], both],
    [
      'interleaved',
      [startA, startB, restB[0], restA[0], restA[1], restB[1], restA[2], restB[2]],
      both,
    ],
    [
      'without an index',
      withoutIndex([
        ...block(0, TOOL, json('{"x":1}')),
        ...block(1, { ...TOOL, id: 'b', name: 'find' }, json('{"y":2}')),
      ]),
      both,
    ],
    [
      'with the same index',
      [
        ...block(0, TOOL, json('{"x":1}')),
        ...block(0, { ...TOOL, id: 'b', name: 'find' }, json('{"y":2}')),
      ],
      both,
    ],
    [
      'with indexes that have gaps',
      [
        ...block(7, TOOL, json('{"x":1}')),
        ...block(3, { ...TOOL, id: 'b', name: 'find' }, json('{"y":2}')),
      ],
      both,
    ],
    ['without any input', block(0, { ...TOOL, input: undefined }), [['a', 'look', '{}']]],
    ['with an input that is empty', block(0, TOOL), [['a', 'look', '{}']]],
    ['with an input of empty pieces', block(0, TOOL, json(''), json('')), [['a', 'look', '{}']]],
    [
      'with an input in the beginning',
      block(0, { ...TOOL, input: { x: 1 } }),
      [['a', 'look', '{"x":1}']],
    ],
    [
      'with an input in the beginning, and an empty piece',
      block(0, { ...TOOL, input: { x: 1 } }, json('')),
      [['a', 'look', '{"x":1}']],
    ],
    [
      'with an input in the beginning, and other pieces',
      block(0, { ...TOOL, input: { x: 9 } }, json('{"x":1}')),
      [['a', 'look', '{"x":1}']],
    ],
    [
      'with an input that is no JSON',
      block(0, TOOL, json('{"x": tru')),
      [['a', 'look', '{"x": tru']],
    ],
    ['with an input that is no object', block(0, TOOL, json('[1]')), [['a', 'look', '[1]']]],
    [
      'with pieces that are null',
      block(0, TOOL, { type: 'input_json_delta', partial_json: null }, json('{}')),
      [['a', 'look', '{}']],
    ],
    [
      'with deltas of tomorrow',
      block(0, TOOL, { type: 'of_tomorrow', x: 1 }, json('{}')),
      [['a', 'look', '{}']],
    ],
    ['without an id', block(0, { ...TOOL, id: undefined }), [[MADE, 'look', '{}']]],
    ['with an empty id', block(0, { ...TOOL, id: '' }), [[MADE, 'look', '{}']]],
  ])('%s', (_what, events, expected) => {
    const decoded = decode([answer(events, 'tool_use')]);
    expect([callsIn(decoded), finishOf(decoded)?.finishReason, decoded.failure]).toEqual([
      expected,
      'tool_calls',
      undefined,
    ]);
  });

  it.each([
    [
      'in the beginning of the message',
      [begun([{ ...TOOL, input: { x: 1 } }])],
      [['a', 'look', '{"x":1}']],
    ],
    [
      'behind text in the beginning of the message',
      [begun([{ type: 'text', text: 'Hi' }, TOOL])],
      [['a', 'look', '{}']],
    ],
    [
      'behind content of the beginning',
      [begun([{ type: 'text', text: 'Hi' }]), ...call(1, 'a', 'look')],
      [['a', 'look', '{}']],
    ],
  ])('%s', (_what, events, expected) => {
    expect(callsIn(decode([sse(...events, ended('tool_use'), STOP)]))).toEqual(expected);
  });

  it.each(
    [
      'server_tool_use mcp_tool_use tool_result web_search_tool_result web_fetch_tool_result code_execution_tool_result',
      'bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result mcp_tool_result',
      'container_upload compaction fallback redacted_thinking of_tomorrow',
    ].flatMap((types) => types.split(' ')),
  )("are not the application's when they are of the kind %s, and are kept", (type) => {
    const start = { type, id: 'srv_1', name: 'look', input: {}, tool_use_id: 'srv_0', content: [] };
    const decoded = decode([answer([...block(0, start, json('')), ...text(1, 'Hi')])]);
    expect([callsIn(decoded), textOf(decoded), finishOf(decoded)?.finishReason]).toEqual([
      [],
      'Hi',
      'stop',
    ]);
    expect(finishOf(decoded)?.providerData).toMatchObject({
      anthropic: {
        blocks: [
          { type, id: 'srv_1' },
          { type: 'text', length: 2 },
        ],
      },
    });
  });

  it.each([
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['pause_turn', 'incomplete'],
    ['tool_use', 'incomplete'],
    ['end_turn', 'incomplete'],
    [null, 'incomplete'],
  ])(
    'are shown and never run when they do not end, and the reason %s is kept',
    (reason, expected) => {
      const half = block(0, TOOL, json('{"x"')).slice(0, -1);
      const decoded = decode([answer(half, reason)]);
      expect([callsIn(decoded), finishOf(decoded)?.finishReason]).toEqual([
        [['a', 'look', '{"x"']],
        expected,
      ]);
    },
  );

  it('do not run when the answer was cut at its token limit, though they are complete', () => {
    const decoded = decode([answer(block(0, TOOL, json('{"x"')), 'max_tokens')]);
    expect([callsIn(decoded), finishOf(decoded)?.finishReason]).toEqual([
      [['a', 'look', '{"x"']],
      'length',
    ]);
  });
});

describe('what is said', () => {
  it.each([
    ['in deltas', text(0, 'H', 'i'), 'Hi', ''],
    ['in the beginning of a block', block(0, { type: 'text', text: 'Hi' }), 'Hi', ''],
    [
      'in the beginning of a block and deltas',
      block(0, { type: 'text', text: 'H' }, { type: 'text_delta', text: 'i' }),
      'Hi',
      '',
    ],
    ['in two blocks', [...text(0, 'H'), ...text(1, 'i')], 'Hi', ''],
    ['in a block that does not end', text(0, 'Hi').slice(0, -1), 'Hi', ''],
    ['behind thinking', [...thinking(0, 'Hm', 's'), ...text(1, 'Hi')], 'Hi', 'Hm'],
    [
      'behind thinking that is left out',
      [
        ...block(
          0,
          { type: 'thinking', thinking: '', signature: '' },
          { type: 'signature_delta', signature: 's' },
        ),
        ...text(1, 'Hi'),
      ],
      'Hi',
      '',
    ],
    [
      'behind thinking in the beginning of a block',
      [...block(0, { type: 'thinking', thinking: 'Hm', signature: 's' }), ...text(1, 'Hi')],
      'Hi',
      'Hm',
    ],
    [
      'behind redacted thinking',
      [...block(0, { type: 'redacted_thinking', data: 'x' }), ...text(1, 'Hi')],
      'Hi',
      '',
    ],
    [
      'behind a compaction',
      [
        ...block(
          0,
          { type: 'compaction', content: null },
          { type: 'compaction_delta', content: 'no' },
        ),
        ...text(1, 'Hi'),
      ],
      'Hi',
      '',
    ],
    ['between pings', text(0, 'H', 'i').flatMap((event) => [{ type: 'ping' }, event]), 'Hi', ''],
    [
      'with citations',
      block(
        0,
        { type: 'text', text: '', citations: [] },
        { type: 'text_delta', text: 'Hi' },
        { type: 'citations_delta', citation: { type: 'page_location' } },
      ),
      'Hi',
      '',
    ],
  ])('%s', (_what, events, said, thought) => {
    const decoded = decode([answer(events)]);
    expect([textOf(decoded), reasoningIn(decoded), finishOf(decoded)?.finishReason]).toEqual([
      said,
      thought,
      'stop',
    ]);
  });
});

describe('the end', () => {
  it.each([
    ['is told once', [ended('end_turn'), STOP], 'stop'],
    ['is told twice', [ended('max_tokens'), ended('end_turn'), STOP], 'stop'],
    ['is told, and then null', [ended('max_tokens'), ended(null), STOP], 'length'],
    ['is told without a last event', [ended('end_turn')], 'stop'],
    ['is a last event alone', [STOP], 'incomplete'],
    ['never comes', [], 'incomplete'],
    ['is told by the beginning', [begun([], { stop_reason: 'max_tokens' }), STOP], 'length'],
    ['is behind a beginning that was lost', [...text(0, 'Hi'), ended('end_turn'), STOP], 'stop'],
  ])('%s', (_what, events, reason) => {
    expect(finishOf(decode([sse(...events)]))?.finishReason).toBe(reason);
  });
});

describe('usage', () => {
  it.each([
    ['of the beginning alone', [begun([]), ended('end_turn')], { inputTokens: 3, outputTokens: 1 }],
    [
      'of the end over the beginning',
      [begun([]), ended('end_turn', { input_tokens: 5, output_tokens: 7 })],
      { inputTokens: 5, outputTokens: 7 },
    ],
    [
      'of many ends, never added up',
      [begun([]), ended(null, { output_tokens: 5 }), ended('end_turn', { output_tokens: 7 })],
      { inputTokens: 3, outputTokens: 7 },
    ],
    [
      'that is null in the end',
      [begun([]), ended('end_turn', { input_tokens: null, output_tokens: 7 })],
      { inputTokens: 3, outputTokens: 7 },
    ],
    [
      'of a fallback, whose parts are in the whole',
      [
        begun([]),
        ended('end_turn', {
          input_tokens: 5,
          output_tokens: 7,
          iterations: [{ input_tokens: 4, output_tokens: 6 }],
        }),
      ],
      { inputTokens: 5, outputTokens: 7 },
    ],
    ['that is not told', [begun([], { usage: undefined }), ended('end_turn')], undefined],
  ])('%s', (_what, events, expected) => {
    expect(usageIn(decode([sse(...events, STOP)]))).toEqual(expected);
  });
});
