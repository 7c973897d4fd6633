import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '@toolloop/protocol';
import { ERAS, pinPath, pinned, started, type StrangeTool, Stranger } from './strangers.js';

const OBJECT = { type: 'object', properties: { a: { type: 'string' } } };
const PLAIN = { name: 'plain', description: 'Plain.', inputSchema: OBJECT };

/**
 * Starts an application that imports tools, and returns the schemas of those that can be called,
 * and the reasons why the others cannot.
 */
async function imported(listed: unknown, names: readonly string[], era: (typeof ERAS)[number]) {
  const stranger = await Stranger.serve([], era);
  stranger.answerTo('tools/list', (id) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      result: { resultType: 'complete', tools: listed, nextCursor: null },
    }),
  );
  const servers = { others: stranger.server({ tools: names }) };
  const { catalog, sources } = await started({ servers, pins: await pinned(servers) });
  const reasons = sources
    .list()
    .flatMap(({ quarantined }) =>
      quarantined.map(({ id, reason }) => [id.replace('mcp__others__', ''), reason]),
    );
  const specs = catalog
    .list()
    .map(
      ({ id, inputSchema, description }) =>
        [id.replace('mcp__others__', ''), { inputSchema, description }] as const,
    );
  return {
    usable: Object.fromEntries(specs),
    refused: Object.fromEntries(reasons) as Record<string, string>,
  };
}

describe.each(ERAS)('an odd tool of a server of the era of %s', (era) => {
  it.each<[string, object, JsonObject]>([
    ['no type in its schema', { inputSchema: { properties: OBJECT.properties } }, OBJECT],
    ['no schema', { inputSchema: undefined }, { type: 'object', properties: {} }],
    ['null for a schema', { inputSchema: null }, { type: 'object', properties: {} }],
    [
      'an object without properties',
      { inputSchema: { type: 'object' } },
      { type: 'object', properties: {} },
    ],
    ['an object or nothing', { inputSchema: { ...OBJECT, type: ['object', 'null'] } }, OBJECT],
    [
      'null for its properties',
      { inputSchema: { type: 'object', properties: null } },
      { type: 'object', properties: {} },
    ],
    ['null for its description', { description: null }, OBJECT],
    ['a list for its description', { description: ['Odd.'] }, OBJECT],
    ['a number for its title', { title: 5 }, OBJECT],
    ['an output without a type', { outputSchema: { properties: { a: {} } } }, OBJECT],
    ['an output that is a list', { outputSchema: { type: 'array', items: {} } }, OBJECT],
    ['a text for its output', { outputSchema: 'object' }, OBJECT],
    [
      'an output that no one can read',
      { outputSchema: { type: 'object', properties: { a: { $ref: 5, type: 'what', enum: 3 } } } },
      OBJECT,
    ],
    ['a text for its annotations', { annotations: 'readOnly' }, OBJECT],
    ['annotations of another type', { annotations: { readOnlyHint: 'yes', title: 5 } }, OBJECT],
    [
      'icons and a task support of another type',
      { icons: 'x', execution: { taskSupport: 7 }, _meta: 5 },
      OBJECT,
    ],
  ])(
    'is offered with what can be read of it, and takes no other away: %s',
    async (_, odd, inputSchema) => {
      const { usable, refused } = await imported(
        [PLAIN, { ...PLAIN, name: 'odd', ...odd }],
        ['plain', 'odd'],
        era,
      );
      expect([refused, usable['odd']?.inputSchema, usable['plain']?.inputSchema]).toEqual([
        {},
        inputSchema,
        OBJECT,
      ]);
    },
  );

  it.each<[string, readonly unknown[], string]>([
    [
      'a text for its schema',
      [{ ...PLAIN, name: 'odd', inputSchema: 'object' }],
      'Its inputSchema is no JSON Schema that can be read.',
    ],
    [
      'a list for its schema',
      [{ ...PLAIN, name: 'odd', inputSchema: [] }],
      'Its inputSchema is no JSON Schema that can be read.',
    ],
    [
      'a schema of texts',
      [{ ...PLAIN, name: 'odd', inputSchema: { type: 'string' } }],
      '"/type": the type of the whole must be "object"',
    ],
    [
      'its name twice',
      [
        { ...PLAIN, name: 'odd' },
        { ...PLAIN, name: 'odd', title: 'Other' },
      ],
      'The server lists two tools named "odd".',
    ],
    [
      'its name twice on a page, with the same words',
      [
        { ...PLAIN, name: 'odd' },
        { ...PLAIN, name: 'odd' },
      ],
      'The server lists two tools named "odd".',
    ],
    ['no place in the list', [], 'has no pin'],
  ])('is in quarantine with its reason, and takes no other away: %s', async (_, odd, reason) => {
    const { usable, refused } = await imported([...odd, PLAIN], ['plain', 'odd'], era);
    expect([Object.keys(usable), refused['odd']]).toEqual([
      ['plain'],
      expect.stringContaining(reason),
    ]);
  });

  it.each<[string, readonly unknown[]]>([
    ['no name', [{ inputSchema: OBJECT }]],
    ['a number for a name', [{ ...PLAIN, name: 5 }]],
    ['an empty name', [{ ...PLAIN, name: '' }]],
    ['nothing at all', [null, 5, 'plain', []]],
  ])('counts for nothing if no one could call it: %s', async (_, odd) => {
    const { usable, refused } = await imported([...odd, PLAIN], ['plain'], era);
    expect([Object.keys(usable), refused]).toEqual([['plain'], {}]);
  });

  it('takes no other away by a schema that is deeper than the stack', async () => {
    const stranger = await Stranger.serve([], era);
    const deep = `${'{"items":'.repeat(20_000)}{}${'}'.repeat(20_000)}`;
    const tools = `[${JSON.stringify(PLAIN)},{"name":"odd","description":"Odd.","inputSchema":{"type":"object","properties":{"a":${deep}}}}]`;
    stranger.answerTo(
      'tools/list',
      (id) => `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete","tools":${tools}}}`,
    );
    const servers = { others: stranger.server({ tools: ['plain', 'odd'] }) };
    const { catalog, sources } = await started({ servers, pins: await pinned(servers) });
    expect([catalog.list().map(({ id }) => id), sources.list()[0]?.quarantined.length]).toEqual([
      ['mcp__others__plain'],
      1,
    ]);
  });

  it('is in the list of null as little as in an empty one; what is no list makes its server unreachable, whose pinned tools stay', async () => {
    const stranger = await Stranger.serve([PLAIN as StrangeTool], era);
    const servers = { others: stranger.server() };
    const { catalog, sources } = await started({ servers, pins: await pinned(servers) });
    stranger.answerTo('tools/list', (id) =>
      JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', tools: {} } }),
    );
    expect(await sources.refresh('mcp__others')).toMatchObject([
      { state: 'unreachable', tools: ['mcp__others__plain'] },
    ]);
    expect(catalog.list()).toHaveLength(1);
    stranger.answerTo('tools/list', (id) =>
      JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', tools: null } }),
    );
    expect(await sources.refresh('mcp__others')).toMatchObject([
      { state: 'ready', tools: [], quarantined: [{ id: 'mcp__others__plain' }] },
    ]);
  });

  it('has no pin while it is not read by a person, whatever is odd about it', async () => {
    const stranger = await Stranger.serve([{ ...PLAIN, title: 5 } as unknown as StrangeTool], era);
    const { sources } = await started({ servers: { others: stranger.server() }, pins: pinPath() });
    expect(sources.list()[0]?.quarantined).toMatchObject([
      { reason: 'The tool "plain" has no pin, so that it was read by no one.' },
    ]);
  });
});
