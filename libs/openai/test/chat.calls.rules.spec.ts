import { describe, expect, it } from '@jest/globals';
import { chunk, decode, sse, type Decoded } from './decode.js';
import { finishOf } from '../../wire/test/decoded.js';

/**
 * One row per thing a provider is known to send, or its sibling: what its deltas are, and the calls
 * they make.
 */
type Row = readonly [
  what: string,
  deltas: readonly unknown[],
  calls: readonly (readonly [id: string, name: string, args: string])[],
];

const MADE = expect.stringMatching(/^call_[0-9a-f]{32}$/) as unknown as string;

function fn(name: unknown, text?: unknown): object {
  return {
    function: {
      ...(name !== undefined && { name }),
      ...(text !== undefined && { arguments: text }),
    },
  };
}

function callsIn({ events }: Decoded): unknown[] {
  return events.flatMap((event) =>
    event.type === 'tool-call' ? [[event.toolCallId, event.name, event.arguments]] : [],
  );
}

/** Every delta in a chunk of its own, and all of them in one. */
function decodeCalls(deltas: readonly unknown[]): readonly Decoded[] {
  const end = chunk({}, 'tool_calls');
  return [
    decode([sse(...deltas.map((delta) => chunk({ tool_calls: [delta] })), end)]),
    decode([sse(chunk({ tool_calls: deltas }), end)]),
  ];
}

const INDEXES: readonly Row[] = [
  [
    'an index',
    [
      { index: 0, id: 'a', ...fn('look', '{"x":') },
      { index: 0, ...fn(undefined, '1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'no index',
    [{ id: 'a', ...fn('look', '{"x":') }, fn(undefined, '1}')],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'an index that is null',
    [
      { index: null, id: 'a', ...fn('look', '{"x":') },
      { index: null, ...fn(null, '1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'no index, the id repeated',
    [
      { id: 'a', ...fn('look', '{"x":') },
      { id: 'a', ...fn('look', '1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'no index, and two calls in turn',
    [
      { id: 'a', ...fn('look', '{}') },
      { id: 'b', ...fn('look', '{}') },
    ],
    [
      ['a', 'look', '{}'],
      ['b', 'look', '{}'],
    ],
  ],
  [
    'no index, and two calls interleaved by their ids',
    [
      { id: 'a', ...fn('look', '{"x":') },
      { id: 'b', ...fn('find', '{"y":') },
      { id: 'a', ...fn('', '1}') },
      { id: 'b', ...fn('', '2}') },
    ],
    [
      ['a', 'look', '{"x":1}'],
      ['b', 'find', '{"y":2}'],
    ],
  ],
  [
    'neither index nor id',
    [fn('look', '{"x":1}'), fn('look', '{"x":2}')],
    [
      [MADE, 'look', '{"x":1}'],
      [MADE, 'look', '{"x":2}'],
    ],
  ],
  [
    'no index and an empty id',
    [
      { id: '', ...fn('look', '{"x":'), type: 'function' },
      { id: '', ...fn('', '1}') },
    ],
    [[MADE, 'look', '{"x":1}']],
  ],
  ['an index from 1', [{ index: 1, id: 'a', ...fn('look', '{}') }], [['a', 'look', '{}']]],
  [
    'indexes with gaps',
    [
      { index: 4, id: 'c', ...fn('c', '{}') },
      { index: 0, id: 'a', ...fn('a', '{}') },
      { index: 2, id: 'b', ...fn('b', '{}') },
    ],
    [
      ['a', 'a', '{}'],
      ['b', 'b', '{}'],
      ['c', 'c', '{}'],
    ],
  ],
  [
    'the index 0 for all',
    [
      { index: 0, id: 'a', ...fn('look', '{"x":1}') },
      { index: 0, id: 'b', ...fn('look', '{"x":2}') },
      { index: 0, ...fn(undefined, ' ') },
    ],
    [
      ['a', 'look', '{"x":1}'],
      ['b', 'look', '{"x":2} '],
    ],
  ],
  [
    'the index 0 for all, and two calls interleaved by their ids',
    [
      { index: 0, id: 'a', ...fn('look', '{"x"') },
      { index: 0, id: 'b', ...fn('find', '{}') },
      { index: 0, id: 'a', ...fn('look', ':1}') },
    ],
    [
      ['a', 'look', '{"x":1}'],
      ['b', 'find', '{}'],
    ],
  ],
  [
    'the index 0 for all, and an id for the second only',
    [
      { index: 0, id: '', ...fn('look', '{"x":1}') },
      { index: 0, id: 'b', ...fn('find', '{"y":2}') },
    ],
    [
      [MADE, 'look', '{"x":1}'],
      ['b', 'find', '{"y":2}'],
    ],
  ],
  [
    'indexes for some only, which keep their order',
    [
      { index: 5, id: 'a', ...fn('a', '{}') },
      { id: 'b', ...fn('b', '{}') },
    ],
    [
      ['a', 'a', '{}'],
      ['b', 'b', '{}'],
    ],
  ],
  [
    'two calls interleaved',
    [
      { index: 0, id: 'a', ...fn('look', '') },
      { index: 1, id: 'b', ...fn('find', '') },
      { index: 1, ...fn(undefined, '{"y"') },
      { index: 0, ...fn(undefined, '{"x"') },
      { index: 0, ...fn(undefined, ':1}') },
      { index: 1, ...fn(undefined, ':2}') },
    ],
    [
      ['a', 'look', '{"x":1}'],
      ['b', 'find', '{"y":2}'],
    ],
  ],
];

const NAMES: readonly Row[] = [
  [
    'an id that comes late',
    [
      { index: 0, id: null, ...fn('look', '{"x"') },
      { index: 0, id: 'a', ...fn(null, ':1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'an id that comes late with the name again',
    [
      { index: 0, id: '', ...fn('look', '{"x"') },
      { index: 0, id: 'a', ...fn('look', ':1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'an id that is empty later',
    [
      { index: 0, id: 'a', ...fn('look', '{"x"') },
      { index: 0, id: '', ...fn('', ':1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'an id that is null later',
    [
      { index: 0, id: 'a', type: 'function', ...fn('look', null) },
      { index: 0, id: null, type: null, ...fn(null, '{}') },
    ],
    [['a', 'look', '{}']],
  ],
  [
    'another id later, without a name',
    [
      { index: 0, id: 'a', ...fn('look', '{"x"') },
      { index: 0, id: 'z', ...fn(undefined, ':1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'id, name and type in every delta',
    [
      { index: 0, id: 'a', type: 'function', ...fn('look', '{"x"') },
      { index: 0, id: 'a', type: 'function', ...fn('look', ':1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'a name that comes late',
    [
      { index: 0, id: 'a', ...fn(undefined, '{"x"') },
      { index: 0, ...fn('look', ':1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'a name that is empty at first',
    [
      { index: 0, id: 'a', ...fn('', '') },
      { index: 0, ...fn('look', '{}') },
    ],
    [['a', 'look', '{}']],
  ],
  [
    'another name later',
    [
      { index: 0, id: 'a', ...fn('look', '{"x"') },
      { index: 0, ...fn('find', ':1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  [
    'one id for two indexes',
    [
      { index: 0, id: 'a', ...fn('look', '{}') },
      { index: 1, id: 'a', ...fn('look', '{}') },
    ],
    [
      ['a', 'look', '{}'],
      [MADE, 'look', '{}'],
    ],
  ],
  ['an id that is a number', [{ index: 0, id: 7, ...fn('look', '{}') }], [[MADE, 'look', '{}']]],
  [
    'an empty delta of an index of its own',
    [
      { index: 0, id: 'a', ...fn('look', '{}') },
      { index: 1, id: '', type: 'function', ...fn('', '') },
      { index: 2, ...fn(undefined, null) },
    ],
    [['a', 'look', '{}']],
  ],
  ['no type', [{ index: 0, id: 'a', ...fn('look', '{}') }], [['a', 'look', '{}']]],
];

const ARGUMENTS: readonly Row[] = [
  ['none', [{ index: 0, id: 'a', ...fn('look') }], [['a', 'look', '{}']]],
  ['an empty text', [{ index: 0, id: 'a', ...fn('look', '') }], [['a', 'look', '{}']]],
  ['blanks', [{ index: 0, id: 'a', ...fn('look', ' \n') }], [['a', 'look', '{}']]],
  ['null', [{ index: 0, id: 'a', ...fn('look', null) }], [['a', 'look', '{}']]],
  [
    'null first',
    [
      { index: 0, id: 'a', ...fn('look', null) },
      { index: 0, ...fn(null, '{"x":1}') },
    ],
    [['a', 'look', '{"x":1}']],
  ],
  ['{}', [{ index: 0, id: 'a', ...fn('look', '{}') }], [['a', 'look', '{}']]],
  ['an object', [{ index: 0, id: 'a', ...fn('look', { x: 'é' }) }], [['a', 'look', '{"x":"é"}']]],
  ['an empty object', [{ index: 0, id: 'a', ...fn('look', {}) }], [['a', 'look', '{}']]],
  ['a list', [{ index: 0, id: 'a', ...fn('look', [1]) }], [['a', 'look', '[1]']]],
  [
    'a text that is JSON twice',
    [{ index: 0, id: 'a', ...fn('look', '"{\\"x\\":1}"') }],
    [['a', 'look', '"{\\"x\\":1}"']],
  ],
  ['half a JSON', [{ index: 0, id: 'a', ...fn('look', '{"x":') }], [['a', 'look', '{"x":']]],
  [
    'JSON with a fence around it',
    [{ index: 0, id: 'a', ...fn('look', '```json\n{}\n```') }],
    [['a', 'look', '```json\n{}\n```']],
  ],
];

describe.each([
  ['calls', INDEXES],
  ['ids and names', NAMES],
  ['arguments', ARGUMENTS],
] as const)('%s', (_of, rows) => {
  it.each(rows)('are read from %s', (_what, deltas, calls) => {
    for (const decoded of decodeCalls(deltas)) {
      expect([callsIn(decoded), decoded.failure]).toEqual([calls, undefined]);
      expect(finishOf(decoded)?.finishReason).toBe('tool_calls');
    }
  });
});

describe('a call', () => {
  it('may come in the older way, its name in every delta', () => {
    const deltas = [
      { name: 'look', arguments: '{"x"' },
      { name: 'look', arguments: ':1}' },
    ];
    const decoded = decode([
      sse(
        ...deltas.map((call) => chunk({ content: null, tool_calls: null, function_call: call })),
        chunk({}, 'function_call'),
      ),
    ]);
    expect(callsIn(decoded)).toEqual([[MADE, 'look', '{"x":1}']]);
  });

  it('may come without a list', () => {
    const deltas = [
      { index: 0, id: '', type: 'function', ...fn('look', '{"x"') },
      { index: 0, id: '', type: 'function', ...fn(null, ':1}') },
    ];
    const decoded = decode([
      sse(...deltas.map((delta) => chunk({ tool_calls: delta })), chunk({}, 'eos_token')),
    ]);
    expect(callsIn(decoded)).toEqual([[MADE, 'look', '{"x":1}']]);
  });

  it('is one, though the older way repeats it', () => {
    const call = { index: 0, id: 'a', ...fn('look', '{}') };
    const both = chunk(
      { tool_calls: [call], function_call: { name: 'look', arguments: '{}' } },
      'tool_calls',
    );
    expect(callsIn(decode([sse(both)]))).toEqual([['a', 'look', '{}']]);
  });

  it.each([
    [
      'beside its delta is not made again',
      [chunk({ tool_calls: [{ index: 0, id: 'a', ...fn('look', '{}') }] })],
      'delta',
    ],
    [
      'behind its deltas is not made again',
      [chunk({ tool_calls: [{ index: 0, id: 'a', ...fn('look', '{}') }] })],
      undefined,
    ],
    ['where there were no deltas is made', [], undefined],
    [
      'behind deltas that say nothing is made',
      [chunk({ role: 'assistant', content: '', tool_calls: [] })],
      undefined,
    ],
  ])('a call in the message of the last chunk %s', (_what, before, key) => {
    const message = {
      role: 'assistant',
      content: 'Hi',
      tool_calls: [{ id: 'a', ...fn('look', '{}') }],
    };
    const last = {
      choices: [
        {
          index: 0,
          message,
          ...(key !== undefined && { [key]: { content: '' } }),
          finish_reason: 'tool_calls',
        },
      ],
    };
    expect(callsIn(decode([sse(...before, last, last)]))).toEqual([['a', 'look', '{}']]);
  });

  it.each(['length', 'content_filter', 'error', null])(
    'is shown and does not run when it ends with %s',
    (reason) => {
      const decoded = decode([
        sse(
          chunk({ tool_calls: [{ index: 0, id: 'a', ...fn('look', '{"x":') }] }),
          chunk({}, reason),
        ),
      ]);
      expect(callsIn(decoded)).toEqual([['a', 'look', '{"x":']]);
      expect(['tool_calls', 'stop']).not.toContain(finishOf(decoded)?.finishReason);
    },
  );
});
