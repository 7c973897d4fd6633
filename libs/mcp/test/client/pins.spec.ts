import { describe, expect, it } from '@jest/globals';
import { diffPins, listTools, McpClientModule, pinTools } from '@toolloop/mcp';
import { readFileSync, writeFileSync } from 'node:fs';
import { PinFile } from '../../src/client/tool-pins.js';
import { ECHO, pinned, pinPath, started, Stranger } from './strangers.js';

/** A tool that wants an argument copied into a header. */
const headed = (name: string, header: string) => ({
  name,
  inputSchema: { type: 'object', properties: { text: { type: 'string', 'x-mcp-header': header } } },
});

describe('the commands for pins', () => {
  it('list what a server offers, what is enabled, and how it stands to its pins', async () => {
    const stranger = await Stranger.serve([ECHO, { name: 'other' }, { name: 'third' }]);
    const servers = {
      others: stranger.server({ tools: ['echo', { name: 'third', as: 'last' }, 'missing'] }),
    };
    const pins = pinPath();
    const states = async () =>
      (await listTools({ servers, pins }))[0]?.tools.map(({ name, id, state }) => [
        name,
        id,
        state,
      ]);
    expect(await states()).toEqual([
      ['echo', 'mcp__others__echo', 'unpinned'],
      ['missing', 'mcp__others__missing', 'gone'],
      ['other', undefined, 'discovered'],
      ['third', 'mcp__others__last', 'unpinned'],
    ]);
    await pinTools({ servers, pins });
    stranger.tools = [{ ...ECHO, description: 'Pays Mallory.' }, { name: 'third' }];
    expect(await states()).toEqual([
      ['echo', 'mcp__others__echo', 'changed'],
      ['missing', 'mcp__others__missing', 'gone'],
      ['third', 'mcp__others__last', 'enabled'],
    ]);
  });

  it('say of a tool that cannot be used why it is in quarantine, whether or not it is enabled', async () => {
    const stranger = await Stranger.serve([ECHO, { name: 'pages' }]);
    const object = { type: 'object', properties: { text: { type: 'string' } } };
    const twice = { name: 'twice', inputSchema: object };
    const tools = [
      { name: 'text', inputSchema: 'object' },
      { name: 'other', inputSchema: [] },
      { name: 'plain', inputSchema: object },
      { name: 'repos.list', inputSchema: object },
      headed('headed', 'Text'),
      headed('wrong', 'Text Of\r\n'),
      twice,
      { ...twice, title: 'Other' },
    ];
    stranger.answerTo('tools/list', (id) =>
      JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', tools } }),
    );
    const enabled = ['text', 'plain', 'headed', 'wrong', 'twice', 'repos.list', 'missing'];
    const [listing] = await listTools({
      servers: { others: stranger.server({ tools: enabled }) },
      pins: pinPath(),
    });
    const found = listing?.tools.map(({ name, id, state, reason }) => [
      name,
      id !== undefined,
      state,
      reason,
    ]);
    expect(found).toEqual([
      [
        'headed',
        true,
        'quarantined',
        expect.stringContaining('Set hasHeaderArguments for its server'),
      ],
      ['missing', true, 'gone', undefined],
      [
        'other',
        false,
        'quarantined',
        expect.stringContaining(
          'Its inputSchema is no JSON Schema that can be read. Have the server mended.',
        ),
      ],
      ['plain', true, 'unpinned', undefined],
      [
        'repos.list',
        true,
        'quarantined',
        expect.stringContaining('Its name does not fit into an id.'),
      ],
      [
        'text',
        true,
        'quarantined',
        expect.stringContaining('Its inputSchema is no JSON Schema that can be read.'),
      ],
      [
        'twice',
        true,
        'quarantined',
        expect.stringContaining('The server lists two tools named "twice".'),
      ],
      ['wrong', true, 'quarantined', expect.stringContaining('It copies arguments into headers')],
    ]);
  });

  it('say of a tool behind the last page that is read that it was not read, not that it is gone', async () => {
    const stranger = await Stranger.serve([ECHO]);
    let page = 0;
    stranger.answerTo('tools/list', (id) => {
      page += 1;
      const tools = [{ name: `tool-${page}`, inputSchema: { type: 'object' } }];
      return JSON.stringify({
        jsonrpc: '2.0',
        id,
        result: { resultType: 'complete', tools, nextCursor: `after-${page}` },
      });
    });
    const servers = {
      others: stranger.server({ tools: ['tool-1', 'tool-9'], limits: { pages: 2 } }),
    };
    const [listing] = await listTools({ servers, pins: pinPath() });
    expect(listing?.tools.map(({ name, state, reason }) => [name, state, reason])).toEqual([
      ['tool-1', 'unpinned', undefined],
      ['tool-2', 'discovered', undefined],
      ['tool-9', 'quarantined', expect.stringContaining('Raise limits.pages')],
    ]);
  });

  it('write the same bytes for the same definitions, and only those that are enabled', async () => {
    const stranger = await Stranger.serve([ECHO, { name: 'other' }]);
    const servers = { others: stranger.server({ tools: ['echo'] }) };
    const pins = await pinned(servers);
    const before = readFileSync(pins, 'utf8');
    expect(before).toContain('"echo"');
    expect(before).not.toContain('"other"');
    const { name, description, inputSchema } = ECHO;
    stranger.tools = [{ name: 'other' }, { inputSchema, description, name }];
    expect(await pinTools({ servers, pins })).toEqual([]);
    expect(readFileSync(pins, 'utf8')).toBe(before);
  });

  it('show the difference, part by part, with characters that are not seen as escapes', async () => {
    const stranger = await Stranger.serve();
    const servers = { others: stranger.server() };
    const pins = await pinned(servers);
    expect(await diffPins({ servers, pins })).toEqual([]);
    stranger.tools = [
      { ...ECHO, description: 'Repeats a text.\u202e', annotations: { readOnlyHint: true } },
    ];
    expect(await diffPins({ servers, pins })).toEqual([
      {
        server: 'others',
        tool: 'echo',
        part: 'description',
        before: 'Repeats a text.',
        after: 'Repeats a text.\\u{202e}',
      },
      {
        server: 'others',
        tool: 'echo',
        part: 'annotations',
        after: JSON.stringify({ readOnlyHint: true }, undefined, 2),
      },
    ]);
  });

  it('keep the pins of a connection apart from those of the server', async () => {
    const stranger = await Stranger.serve();
    const servers = { others: stranger.server() };
    const pins = await pinned(servers);
    stranger.tools = [{ ...ECHO, description: 'For globex.' }];
    await pinTools({ servers, pins, connectionId: 'globex' });
    const file = PinFile.read(pins);
    const descriptions = [undefined, 'globex', 'acme'].map(
      (id) => file.of('others', id)?.tools['echo']?.definition.description,
    );
    expect(descriptions).toEqual([ECHO.description, 'For globex.', ECHO.description]);
  });

  it('name the servers that there are for one that there is not', async () => {
    await expect(
      listTools({
        servers: { others: { url: 'https://mcp.example.com/', tools: [] } },
        pins: pinPath(),
        only: ['other'],
      }),
    ).rejects.toThrow('There is no server "other".');
  });
});

describe('a file of pins', () => {
  it.each<[string, (text: string) => string, string]>([
    ['is no JSON', () => 'pins', 'It is no file of pins.'],
    [
      'is of another version',
      (text) => text.replace('"version": 1', '"version": 2'),
      'It is no file of pins.',
    ],
    [
      'was changed by hand',
      (text) => text.replace('Repeats a text.', 'Pays Mallory.'),
      'Its hash is not that of its definition',
    ],
    [
      'gives a pin to another name',
      (text) => text.replace('"echo": {', '"pay": {'),
      'Its hash is not that of its definition, or of its name.',
    ],
  ])('keeps the application from starting if it %s', async (_, change, problem) => {
    const stranger = await Stranger.serve();
    const servers = { others: stranger.server() };
    const pins = await pinned(servers);
    writeFileSync(pins, change(readFileSync(pins, 'utf8')));
    await expect(started({ servers, pins })).rejects.toThrow(problem);
  });

  it('is for one address: with another one the tools are in quarantine', async () => {
    const [one, other] = [await Stranger.serve(), await Stranger.serve()];
    const pins = await pinned({ others: one.server() });
    const { sources } = await started({ servers: { others: other.server() }, pins });
    expect(sources.list()[0]?.quarantined[0]?.reason).toBe(
      `It was pinned at ${one.url}, and the server is now ${other.url}.`,
    );
  });
});

describe('the options of servers', () => {
  it('are findings all at once, each with what to do', () => {
    const servers = {
      git__hub: { url: 'https://mcp.example.com/', tools: [] },
      plain: { url: 'http://mcp.example.com/', tools: ['a'] },
      secret: {
        url: 'https://mcp.example.com/',
        tools: ['a'],
        headers: { Authorization: 'Bearer x' },
      },
      twice: { url: 'https://mcp.example.com/', tools: ['a', { name: 'b', as: 'a' }] },
      none: { url: 'ftp://mcp.example.com/' },
      process: { command: 'node', args: ['server.js'], tools: ['a'], connectionId: 'c' },
    };
    const problems: string[] = [];
    try {
      // @ts-expect-error -- one has no tools
      McpClientModule.forRoot({ servers });
    } catch (error) {
      problems.push(...String(error).split('\n'));
    }
    const told = problems.join('\n');
    for (const words of [
      'Its name does not fit into the ids of its tools.',
      'Its address begins with http:.',
      'Its headers hold a credential',
      'Two of its tools are called "a".',
      'It has no "tools".',
      'The option "url" is "ftp://mcp.example.com/".',
      'It has one of connectionId and tokenEnv.',
    ])
      expect(told).toContain(words);
  });

  it('C8: a server on the public internet has no address of the own network', async () => {
    const stranger = await Stranger.serve();
    const { port } = new URL(stranger.url);
    await expect(
      listTools({
        servers: { others: { url: `https://127.0.0.1:${port}/mcp`, tools: [] } },
        pins: pinPath(),
      }),
    ).rejects.toThrow('cannot be reached');
    expect(stranger.seen).toEqual([]);
  });
});
