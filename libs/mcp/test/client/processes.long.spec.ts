import { describe, expect, it } from '@jest/globals';
import { ConnectionBroker, type Credential, type ToolCallContext } from '@toolloop/core';
import { McpClientModule, type McpServer, type McpStdioServer } from '@toolloop/mcp';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { importing, pinned, pinPath, started, until } from './strangers.js';

const SERVER = join(process.cwd(), 'libs/mcp/test/client/stdio-server.mjs');
const TOOLS = ['environment', 'arguments', 'echo', 'flood', 'end'];

const child = (more: Partial<McpStdioServer> = {}): McpServer => ({
  command: process.execPath,
  args: [SERVER],
  tools: TOOLS,
  ...more,
});

/** Reads the JSON that a tool of the process answers with. */
const toldBy = (ui: unknown): Readonly<Record<string, unknown>> =>
  JSON.parse(typeof ui === 'string' ? ui : '{}') as Readonly<Record<string, unknown>>;

describe('C11: a server that is a process', () => {
  it('is called over its standard input and output', async () => {
    const { call } = await importing({ servers: { local: child() } });
    expect((await call('mcp__local__echo', { text: 'Hello' })).ui).toBe('"Hello"');
  });

  it('has the environment that the application names, and nothing else', async () => {
    process.env['TOOLLOOP_SPEC_SECRET'] = 'secret';
    process.env['TOOLLOOP_SPEC_SHARED'] = 'shared';
    try {
      const local = child({ env: { OWN: 'own' }, inherit: ['PATH', 'TOOLLOOP_SPEC_SHARED'] });
      const { call } = await importing({ servers: { local } });
      const { ui } = await call('mcp__local__environment');
      expect(toldBy(ui)).toEqual({
        PATH: process.env['PATH'],
        TOOLLOOP_SPEC_SHARED: 'shared',
        OWN: 'own',
      });
    } finally {
      delete process.env['TOOLLOOP_SPEC_SECRET'];
      delete process.env['TOOLLOOP_SPEC_SHARED'];
    }
  });

  it('gets its arguments as they are: no shell reads them', async () => {
    const file = pinPath();
    const hostile = [
      `; touch ${file}`,
      `$(touch ${file})`,
      `\`touch ${file}\``,
      '| cat',
      '&& ls',
      '*',
      '"',
      '$HOME',
    ];
    const { call } = await importing({ servers: { local: child({ args: [SERVER, ...hostile] }) } });
    expect(toldBy((await call('mcp__local__arguments')).ui)).toEqual(hostile);
    expect(existsSync(file)).toBe(false);
  });

  it('is not started when its command is one for a shell', () => {
    expect(() =>
      McpClientModule.forRoot({
        servers: { local: { command: 'node server.js; rm -r .', tools: [] } },
      }),
    ).toThrow('Give the program in command and the rest in args.');
  });

  it('has its tools in quarantine when its command is not the one for which they were pinned', async () => {
    const pins = await pinned({ local: child() });
    const { sources } = await started({
      servers: { local: child({ args: [SERVER, '--all'] }) },
      pins,
    });
    const [status] = sources.list();
    expect(status?.quarantined).toHaveLength(TOOLS.length);
    expect(status?.quarantined[0]?.reason).toMatch(
      /^It was pinned at ".*stdio-server\.mjs", and the server is now ".*" "--all"\.$/,
    );
  });

  it('C7: is ended when it floods, and started again for the next call', async () => {
    const { call, sources } = await importing({
      servers: { local: child({ limits: { pauseMs: 20 } }) },
    });
    expect((await call('mcp__local__flood')).record.error).toMatchObject({
      code: 'unknown_outcome',
    });
    await until(() => sources.list()[0]?.state === 'ready');
    await until(async () => (await call('mcp__local__echo', { text: 'b' })).ui === '"b"');
  });

  it('leaves it unknown what a call has done whose process ended, and is started again', async () => {
    const { call } = await importing({ servers: { local: child({ limits: { pauseMs: 20 } }) } });
    expect((await call('mcp__local__end')).record.error).toMatchObject({ code: 'unknown_outcome' });
    await until(async () => (await call('mcp__local__echo', { text: 'c' })).ui === '"c"');
  });

  it('C10: is another process for each credential, which it finds in the variable that is named', async () => {
    class Broker extends ConnectionBroker {
      override resolve(connectionId: string, { tenant }: ToolCallContext): Promise<Credential> {
        return Promise.resolve({ connectionId, token: `token of ${tenant}` });
      }
    }
    const local = child({
      connectionId: 'notes',
      tokenEnv: 'NOTES_TOKEN',
      tools: ['echo', 'environment'],
    });
    const pins = await pinned({ local }, { token: () => 'for pinning' });
    const { call } = await started({
      servers: { local },
      pins,
      options: { providers: [{ provide: ConnectionBroker, useClass: Broker }] },
    });
    const environments = await Promise.all(
      ['acme', 'globex'].map((tenant) => call('mcp__local__environment', {}, tenant)),
    );
    // The token itself is replaced in what leaves the call.
    expect(environments.map(({ ui }) => toldBy(ui)['NOTES_TOKEN'])).toEqual([
      '[secret]',
      '[secret]',
    ]);
  });
});
