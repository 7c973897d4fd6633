import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandArguments, environment, fileOf, toolloop } from './command.js';

const APP = fileOf('libs/cli/test/notes-app.module.ts');
const ALICE = ['mcp', '--app', APP, '--actor', 'alice', '--tenant', 'acme'];
const ERAS = ['2026', '2025'] as const;

const folder = mkdtempSync(join(tmpdir(), 'toolloop-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

const clients: Client[] = [];
afterAll(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

interface Connected {
  readonly client: Client;
  /** What the process has said on its standard error. */
  readonly said: () => string;
}

async function connect(
  era: (typeof ERAS)[number],
  args: readonly string[] = ALICE,
  env: NodeJS.ProcessEnv = {},
): Promise<Connected> {
  const client = new Client(
    { name: 'spec', version: '1' },
    { versionNegotiation: { mode: era === '2026' ? { pin: '2026-07-28' } : 'legacy' } },
  );
  clients.push(client);
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: commandArguments(...args),
    env: environment(env),
    stderr: 'pipe',
  });
  let said = '';
  transport.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await client.connect(transport);
  return { client, said: () => said };
}

const names = async (client: Client): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name);

describe.each(ERAS)('toolloop mcp, for a client of the era of %s,', (era) => {
  const closed = join(folder, `closed-${era}`);
  let client: Client;
  let said: Connected['said'];
  beforeAll(async () => {
    ({ client, said } = await connect(era, ALICE, { SPEC_CLOSED: closed }));
  });

  it('serves the tools of the actor that the settings name, and those of what a call has found', async () => {
    let changes = 0;
    client.setNotificationHandler('notifications/tools/list_changed', () => void (changes += 1));
    expect(await names(client)).toContain('notes__count');
    expect(await names(client)).not.toContain('notes__manage');
    const { structuredContent } = await client.callTool({
      name: 'notes__find',
      arguments: { word: 'eggs' },
    });
    expect(JSON.stringify(structuredContent)).toContain('eggs of acme');
    expect(await names(client)).toContain('note_n1_edit');
    expect(changes > 0 || era === '2026').toBe(true); // there only who has asked for it is told
    // Both went where no client reads a protocol.
    expect(said()).toContain('printed by the application');
    expect(said()).toContain('logged by the application');
  });

  it('says that a call waits for a person, and makes it not', async () => {
    const { isError, content } = await client.callTool({
      name: 'notes__send',
      arguments: { to: 'bob@example.com' },
    });
    expect([isError, JSON.stringify(content)]).toEqual([
      true,
      expect.stringContaining('waits for an approval'),
    ]);
  });

  it('closes the application when its client leaves', async () => {
    // resolves once the process has ended, which it does before it would be killed
    await client.close();
    expect(existsSync(closed)).toBe(true);
  });
});

describe('toolloop mcp', () => {
  it('serves the demo with the options of its own server, and nothing of the other tenant', async () => {
    const { client } = await connect('2026', ['mcp', '--app', fileOf('src/app.module.ts')], {
      TOOLLOOP_ACTOR: 'bob',
      TOOLLOOP_TENANT: 'globex',
      DATABASE_URL: undefined,
      DATA_DIR: undefined,
    });
    expect(client.getServerVersion()?.name).toBe('order-desk');
    const { content } = await client.callTool({
      name: 'orders__findOrder',
      arguments: { orderId: 'o-1024' },
    });
    expect(JSON.stringify(content)).not.toContain('acme');
  });

  it('writes nothing but the protocol to the standard output, and ends with the standard input', async () => {
    const asked = { jsonrpc: '2.0', id: 1, method: 'initialize' };
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'spec', version: '1' },
    };
    const { code, stdout } = await toolloop(ALICE, {
      input: `${JSON.stringify({ ...asked, params })}\n`,
    });
    const lines = stdout.split('\n').filter((line) => line !== '');
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' });
    expect(code).toBe(0);
  });

  it('says where an application does not compile', async () => {
    const file = join(folder, 'broken.module.mjs');
    writeFileSync(file, 'export class AppModule {\n');
    const { code, stderr } = await toolloop([...ALICE, '--app', file]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(
        /^toolloop: .*broken\.module\.mjs cannot be loaded: SyntaxError: .*\n$/,
      ),
    ]);
  });

  it.each<[string, readonly string[], string]>([
    [
      'settings that are missing',
      ['mcp', '--app', APP],
      '--actor (or TOOLLOOP_ACTOR), --tenant (or TOOLLOOP_TENANT)',
    ],
    [
      'an application that is not there',
      [...ALICE, '--app', 'dist/none.module.js'],
      'There is no file dist/none.module.js. Build the application',
    ],
    [
      'an export that is not there',
      [...ALICE, '--export', 'Module'],
      `exports no class "Module". It exports: AppModule.`,
    ],
    [
      'an actor who is not there',
      [...ALICE, '--tenant', 'globex'],
      'The application knows no actor "alice" in the tenant "globex".',
    ],
    [
      'an application that does not start',
      [...ALICE, '--app', fileOf('libs/cli/test/wrong-app.module.ts')],
      'wrong__nothing',
    ],
    [
      'a command of MCP that is not there',
      ['mcp', 'lst'],
      'There is no command "mcp lst". There are: mcp list, mcp diff, mcp pin.',
    ],
    ['a command that is not there', ['mpc'], "unknown command 'mpc' (Did you mean mcp?)"],
    [
      'an option that is not there',
      ['mcp', 'list', '--jsn'],
      "unknown option '--jsn' (Did you mean --json?)",
    ],
  ])('tells of %s in one line, and ends with 2', async (_, args, words) => {
    const { code, stdout, stderr } = await toolloop(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(words);
    expect(
      stderr
        .trimEnd()
        .split('\n')
        .filter((line) => line.startsWith('toolloop: ')),
    ).toHaveLength(1);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});
