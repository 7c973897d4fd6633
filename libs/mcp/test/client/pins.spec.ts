import { describe, expect, it } from '@jest/globals';
import { diffPins, listTools, McpClientModule, PinFile, pinTools } from '@toolloop/mcp';
import { readFileSync, writeFileSync } from 'node:fs';
import { ECHO, pinned, pinPath, started, Stranger } from './strangers.js';

describe('the commands for pins', () => {
  it('list what a server offers, what is enabled, and how it stands to its pins', async () => {
    const stranger = await Stranger.serve([ECHO, { name: 'other' }, { name: 'third' }]);
    const servers = { others: stranger.server({ tools: ['echo', { name: 'third', as: 'last' }, 'missing'] }) };
    const pins = pinPath();
    const states = async () => (await listTools({ servers, pins }))[0]?.tools.map(({ name, id, state }) => [name, id, state]);
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
    stranger.tools = [{ ...ECHO, description: 'Repeats a text.\u202e', annotations: { readOnlyHint: true } }];
    expect(await diffPins({ servers, pins })).toEqual([
      { server: 'others', tool: 'echo', part: 'description', before: 'Repeats a text.', after: 'Repeats a text.\\u{202e}' },
      { server: 'others', tool: 'echo', part: 'annotations', after: JSON.stringify({ readOnlyHint: true }, undefined, 2) },
    ]);
  });

  it('keep the pins of a connection apart from those of the server', async () => {
    const stranger = await Stranger.serve();
    const servers = { others: stranger.server() };
    const pins = await pinned(servers);
    stranger.tools = [{ ...ECHO, description: 'For globex.' }];
    await pinTools({ servers, pins, connectionId: 'globex' });
    const file = PinFile.read(pins);
    const descriptions = [undefined, 'globex', 'acme'].map((id) => file.of('others', id)?.tools['echo']?.definition.description);
    expect(descriptions).toEqual([ECHO.description, 'For globex.', ECHO.description]);
  });

  it('name the servers that there are for one that there is not', async () => {
    await expect(
      listTools({ servers: { others: { url: 'https://mcp.example.com/', tools: [] } }, pins: pinPath(), only: ['other'] }),
    ).rejects.toThrow('There is no server "other".');
  });
});

describe('a file of pins', () => {
  it.each<[string, (text: string) => string, string]>([
    ['is no JSON', () => 'pins', 'It is no file of pins.'],
    ['is of another version', (text) => text.replace('"version": 1', '"version": 2'), 'It is no file of pins.'],
    ['was changed by hand', (text) => text.replace('Repeats a text.', 'Pays Mallory.'), 'Its hash is not that of its definition'],
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
    expect(sources.list()[0]?.quarantined[0]?.reason).toBe(`It was pinned at ${one.url}, and the server is now ${other.url}.`);
  });
});

describe('the options of servers', () => {
  it('are findings all at once, each with what to do', () => {
    const servers = {
      git__hub: { url: 'https://mcp.example.com/', tools: [] },
      plain: { url: 'http://mcp.example.com/', tools: ['a'] },
      secret: { url: 'https://mcp.example.com/', tools: ['a'], headers: { Authorization: 'Bearer x' } },
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
    await expect(listTools({ servers: { others: { url: `https://127.0.0.1:${port}/mcp`, tools: [] } }, pins: pinPath() })).rejects.toThrow(
      'cannot be reached',
    );
    expect(stranger.seen).toEqual([]);
  });
});
