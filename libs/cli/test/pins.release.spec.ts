import { describe, expect, it } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ECHO, pinPath, Stranger } from '../../mcp/test/client/strangers.js';
import { type Ended, toolloop } from './command.js';

/** Writes a file of servers beside the pins. */
const fileOf = (servers: unknown, pins: string): string => {
  const file = `${pins}.servers.json`;
  writeFileSync(file, JSON.stringify({ servers }));
  return file;
};

/** The commands about the pins of some servers. */
const commandsFor = (servers: unknown): ((...args: string[]) => Promise<Ended>) => {
  const pins = pinPath();
  const options = ['--pins', pins, '--servers', fileOf(servers, pins)];
  return (...args) => toolloop(['mcp', ...args, ...options], { env: { SPEC_TOKEN: 'secret' } });
};

describe('toolloop mcp list, diff and pin', () => {
  it('list, compare and pin, with an exit code for each', async () => {
    const stranger = await Stranger.serve();
    const run = commandsFor({ others: stranger.server() });
    expect(await run('list')).toEqual({
      code: 0,
      stdout: 'others\n  unpinned    echo → mcp__others__echo\n',
      stderr: `others: ${stranger.url}\n`,
    });
    expect((await run('diff')).code).toBe(1);
    expect((await run('pin', 'others')).stdout).toContain('+ Repeats a text.');
    expect(await run('diff')).toMatchObject({ code: 0, stdout: 'All is as it was pinned.\n' });
    stranger.tools = [{ ...ECHO, description: 'Pays Mallory.' }];
    expect((await run('diff')).stdout).toContain(
      'others echo: description\n  - Repeats a text.\n  + Pays Mallory.',
    );
    const { code, stdout } = await run('diff', '--json');
    expect([code, JSON.parse(stdout)]).toEqual([
      1,
      [
        {
          server: 'others',
          tool: 'echo',
          part: 'description',
          before: 'Repeats a text.',
          after: 'Pays Mallory.',
        },
      ],
    ]);
  });

  it('show the exact command of a process before it is started, and ask with a token of the environment', async () => {
    const server = join(process.cwd(), 'libs/mcp/test/client/stdio-server.mjs');
    const local = {
      command: process.execPath,
      args: [server, '$(id)'],
      tools: ['environment'],
      connectionId: 'c',
      tokenEnv: 'TOKEN',
    };
    const { code, stdout, stderr } = await commandsFor({ local })(
      'pin',
      '--token-env',
      'local=SPEC_TOKEN',
    );
    expect([code, stderr]).toEqual([0, `local: "${process.execPath}" "${server}" "$(id)"\n`]);
    expect(stdout).not.toContain('secret');
  });

  it.each<[string, string[], string]>([
    [
      'a token that is not set',
      ['list', '--token-env', 'others=NONE'],
      'with a variable that is set',
    ],
    ['a server that there is not', ['list', 'another'], 'There is no server "another".'],
  ])('say what to do for %s', async (_, args, words) => {
    const { code, stderr } = await commandsFor({
      others: { url: 'https://mcp.example.com/', tools: [] },
    })(...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
  });

  it('say which file they wanted where there is none', async () => {
    const { code, stderr } = await toolloop(['mcp', 'list', '--servers', 'none.json']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('There is no file none.json')]);
  });
});
