import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, hangs, ScriptedModel, text } from '@toolloop/testing';
import {
  closeTerminals,
  commandArguments,
  describeAtTerminal,
  type Ended,
  environment,
  fileOf,
  Terminal,
  toolloop,
} from '../../libs/cli/test/command.js';
import { ask, closeDesks, serve, type ServedDesk } from './served-desk.js';

afterEach(closeTerminals);

const KEY = 'a key of more than thirty-two bytes, for tests';
const FIND = calls(call('orders__findOrder', { orderId: 'o-1024' }));
const CANCEL = calls(call('order_o-1024_cancel', {}));

let desk: ServedDesk;
const as = (user: string): NodeJS.ProcessEnv => ({
  TOOLLOOP_URL: desk.url,
  TOOLLOOP_TOKEN: `demo-${user}`,
  AUDIT_KEY: KEY,
});
const run = (user: string, ...args: string[]): Promise<Ended> => toolloop(args, { env: as(user) });
const jsonOf = ({ stdout }: Ended): unknown => JSON.parse(stdout);

describe('the command line, as a client of the desk,', () => {
  beforeAll(async () => {
    desk = await serve({ settings: { auditKey: KEY } });
  });
  afterAll(closeDesks);

  it('lists and calls the tools of the user whose token it has', async () => {
    expect((await run('alice', 'tools')).stdout).toMatch(/^orders__findOrder +read_only +/m);
    const { code, stdout } = await run(
      'alice',
      'call',
      'orders__findOrder',
      '{"orderId":"o-1024"}',
    );
    expect([code, stdout]).toEqual([0, expect.stringContaining('order_o-1024_cancel')]);
    expect(
      (await run('bob', 'call', 'orders__findOrder', '{"orderId":"o-1024"}')).stdout,
    ).not.toContain('acme');
  });

  it('explains a tool to an operator alone', async () => {
    const { code, stdout } = await run('ops', 'explain', 'orders__sendReceipt', '--for', 'alice');
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining('orders__sendReceipt is listed and asks before it is called.'),
    ]);
    expect(await run('alice', 'explain', 'orders__sendReceipt')).toMatchObject({
      code: 2,
      stdout: '',
    });
  });

  it('shows the inbox, decides what the user may decide, and tells everybody else that they may not', async () => {
    await ask(desk, 'alice', { message: 'Cancel order o-1024.' }).then((response) =>
      response.text(),
    );
    const [waiting] = jsonOf(await run('mia', 'inbox', '--json')) as {
      id: string;
      request: { runId: string };
    }[];
    const id = waiting?.id ?? '';
    expect((await run('bob', 'inbox')).stdout).toBe('Nothing waits.\n');
    expect(await run('alice', 'inbox', 'approve', id)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('toolloop: '),
    });
    expect((await run('mia', 'inbox', 'deny', id, '--reason', 'Not today.')).stdout).toBe(
      `Denied. The run is ${waiting?.request.runId}.\n`,
    );
    expect((await run('mia', 'inbox', 'approve', id)).code).toBe(2);
    expect((await run('alice', 'inbox')).stdout).not.toContain('for someone');
    await ask(desk, 'alice', { message: 'Cancel order o-1022.' }).then((response) =>
      response.text(),
    );
    expect((await run('alice', 'inbox')).stdout).toMatch(
      /\n {4}for someone with the role manager\n/,
    );
  });

  it('lists the runs of the user', async () => {
    await ask(desk, 'alice', { message: 'Cancel order o-1023.' }).then((response) =>
      response.text(),
    );
    expect((await run('alice', 'runs')).stdout).toMatch(/waits for an approval/);
    expect((await run('bob', 'runs')).stdout).toBe('There are no runs.\n');
    expect((await run('alice', 'runs', '--status', 'done')).stderr).toContain(
      '--status is one of queued, running, waiting, ended.',
    );
  });

  it('verifies the audit, and says by its exit code that it was signed with another key', async () => {
    expect(await run('mia', 'audit', 'verify')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('The audit of acme is valid'),
    });
    const other = { ...as('mia'), AUDIT_KEY: `${KEY}, another` };
    expect(await toolloop(['audit', 'verify'], { env: other })).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('not valid'),
    });
  });

  it('opens the page of the console that shows the same, in the browser of the person', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolloop-browser-'));
    const [browser, seen] = [join(folder, 'browser'), join(folder, 'seen')];
    await writeFile(
      browser,
      `#!/bin/sh\nprintf %s "$1" > ${seen}.part && mv ${seen}.part ${seen}\n`,
      { mode: 0o755 },
    );
    const address = `${desk.url}/console#/why/orders__sendReceipt/as/alice`;
    const opened = await toolloop(['explain', 'orders__sendReceipt', '--for', 'alice', '--open'], {
      env: { ...as('ops'), BROWSER: browser },
    });
    expect(opened).toMatchObject({ code: 0, stdout: `Opened ${address}\n` });
    while (!existsSync(seen)) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await readFile(seen, 'utf8')).toBe(address);
    await rm(folder, { recursive: true });
    const none = await toolloop(['tools', '--open'], { env: { ...as('ops'), BROWSER: browser } });
    expect(none).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`Open it yourself: ${desk.url}/console#/tools`),
    });
  });

  it('says in one line that a token is wrong, and that nothing listens', async () => {
    const { code, stderr } = await run('mallory', 'tools');
    expect([code, stderr.trimEnd().split('\n')]).toEqual([
      2,
      [expect.stringContaining('The token in TOOLLOOP_TOKEN is none that it knows.')],
    ]);
    const noOne = await toolloop(['tools', '--url', desk.url]);
    expect([noOne.code, noOne.stderr]).toEqual([
      2,
      expect.stringContaining('Set TOOLLOOP_TOKEN to the token of a person.'),
    ]);
    const nowhere = await toolloop(['tools', '--url', 'http://127.0.0.1:1']);
    expect([nowhere.code, nowhere.stderr.trimEnd().split('\n')]).toEqual([
      2,
      [expect.stringContaining('http://127.0.0.1:1')],
    ]);
  });
});

describe('the command line with the demo booted for it', () => {
  it('has the terms that the routes give the actor: what they would ask a manager about waits', async () => {
    const app = ['--app', fileOf('src/app.module.ts'), '--tenant', 'acme'];
    const env = { DATABASE_URL: undefined, DATA_DIR: undefined };
    const called = await toolloop(
      ['call', 'orders__sendReceipt', '{"orderId":"o-1021"}', ...app, '--actor', 'alice'],
      { env },
    );
    expect([called.code, called.stdout]).toEqual([
      1,
      expect.stringContaining('It waits for an approval: run '),
    ]);
  });
});

describe('toolloop chat, as a client of the desk,', () => {
  afterEach(closeDesks);

  it('ends at a signal with the lines that it has not taken, where it is piped', async () => {
    desk = await serve({
      model: new ScriptedModel([hangs('This answer is long. '), text('Still here.')]),
    });
    const child = spawn(process.execPath, commandArguments('chat'), {
      env: environment(as('alice')),
    });
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    child.stdin.end('Tell me all.\nAre you there?\n');
    while (!said.includes('This answer is long.') && child.exitCode === null)
      await new Promise((resolve) => setTimeout(resolve, 10));
    child.kill('SIGINT');
    expect(await ended).toBe(1);
    expect(said).toContain('Stopped.');
    expect(said).not.toContain('Still here.');
  });

  it('answers each piped line without a prompt or a colour', async () => {
    desk = await serve({
      model: new ScriptedModel([FIND, text('It is on its way.'), text('Goodbye.')]),
    });
    const { code, stdout } = await toolloop(['chat'], {
      env: as('alice'),
      input: 'Where is o-1024?\nThanks.\n',
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /→ orders__findOrder.*\n← .*\n\+ .*order_o-1024_cancel\nIt is on its way\.\s+Goodbye\./,
    );
    expect(stdout).not.toContain('\u001b');
    expect(stdout).not.toMatch(/^> /m);
  });
});

describeAtTerminal('toolloop chat at a terminal, as a client of the desk,', () => {
  afterEach(closeDesks);

  it('leaves a decision to those who may take it, and resumes the run when it was', async () => {
    desk = await serve({ model: new ScriptedModel([FIND, CANCEL, text('It is cancelled.')]) });
    const terminal = new Terminal(['chat'], as('alice'));
    await terminal.see(/> /);
    terminal.type('Cancel o-1024.\r');
    await terminal.see(/It is for someone with the role manager: apr_\w+ in their inbox\./);
    const [, runId = ''] = await terminal.see(/Continue it with \/resume (\S+) once/);
    await terminal.see(/Leave until then\?/);
    expect(terminal.text).not.toMatch(/Approve it\?|listens nowhere/);
    terminal.type('\r');
    const asked = terminal.text.length;
    terminal.type(`/resume ${runId}\r`);
    await terminal.see(/for someone with the role manager.*Leave until then\?/s, asked);
    terminal.type('\r');
    const [waiting] = jsonOf(await run('mia', 'inbox', '--json')) as { id: string }[];
    expect((await run('mia', 'inbox', 'approve', waiting?.id ?? '')).code).toBe(0);
    terminal.type(`/resume ${runId}\r`);
    await terminal.see(/It is cancelled\./);
    const before = terminal.text.length;
    terminal.type('/tools\r');
    await terminal.see(/orders__findOrder +read_only/, before);
    terminal.type('/runs\r');
    await terminal.see(new RegExp(runId), before);
    terminal.type('/why orders__findOrder\r');
    await terminal.see(/not permitted|may not|operator/i, before);
    terminal.type('/quit\r');
    expect(await terminal.ended).toBe(0);
  });

  it('is left with the id of the run, where others have to decide', async () => {
    desk = await serve({ model: new ScriptedModel([FIND, CANCEL]) });
    const terminal = new Terminal(['chat'], as('alice'));
    await terminal.see(/> /);
    terminal.type('Cancel o-1024.\r');
    await terminal.see(/Leave until then\?/);
    terminal.type('yes\r');
    const [, runId] = await terminal.see(/The run is (\S+)\./);
    expect(await terminal.ended).toBe(0);
    const [waiting] = jsonOf(await run('alice', 'runs', '--status', 'waiting', '--json')) as {
      runId: string;
    }[];
    expect(waiting?.runId).toBe(runId);
  });

  it('ends at Ctrl-D once the answer is written', async () => {
    const model = new ScriptedModel([
      calls(call('parcels__quotePostage', {})),
      text('That was all.'),
    ]);
    desk = await serve({ model });
    const terminal = new Terminal(['chat'], as('alice'));
    await terminal.see(/> /);
    terminal.type('Quote it.\r');
    await terminal.see(/a number: /);
    terminal.type('2500\r\u0004');
    expect(await terminal.ended).toBe(0);
    expect(terminal.text).toContain('That was all.');
    expect(terminal.text).not.toContain('readline');
  });

  it('stops the answer at Ctrl-C, and takes the next question', async () => {
    const model = new ScriptedModel([hangs('This answer is long. '), text('Still here.')]);
    desk = await serve({ model });
    const terminal = new Terminal(['chat'], as('alice'));
    await terminal.see(/> /);
    terminal.type('Tell me all.\r');
    await terminal.see(/This answer is long\./);
    terminal.type('\u0003');
    await terminal.see(/Stopped\./);
    // the server let go of the model
    while (model.openStreams > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    terminal.type('Are you there?\r');
    await terminal.see(/Still here\./);
    terminal.type('\u0004');
    expect(await terminal.ended).toBe(0);
  });
});

describe('the completion for bash', () => {
  it('completes commands and the options of a command', async () => {
    const { stdout } = await toolloop(['completion', 'bash']);
    const complete = async (...words: string[]): Promise<string> => {
      const line = `COMP_WORDS=(toolloop ${words.join(' ')}); COMP_CWORD=${words.length}; _toolloop; echo "\${COMPREPLY[@]}"`;
      return (await promisify(execFile)('bash', ['-c', `${stdout}\n${line}`])).stdout.trim();
    };
    expect(await complete('aud')).toBe('audit');
    expect(await complete('audit', 'v')).toBe('verify');
    expect(await complete('inbox', 'deny', '--re')).toBe('--reason');
    expect(await complete('mcp', "''")).toContain('list diff pin');
  });
});

const ZSH = '/usr/bin/zsh';
const hasZsh = existsSync(ZSH);
const NO_ZSH = hasZsh ? '' : ' [skipped: install zsh]';

(hasZsh ? describeAtTerminal : describe.skip)(`the completion for zsh${NO_ZSH}`, () => {
  it('completes commands and the options of a command, also in a shell in which nothing completes yet', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolloop-zsh-'));
    await writeFile(join(folder, 'toolloop.zsh'), (await toolloop(['completion', 'zsh'])).stdout);
    const shell = new Terminal(['-f', '-i'], { ZDOTDIR: folder, HOME: folder }, ZSH);
    shell.type(
      `source ${folder}/toolloop.zsh && toolloop() { print "ran:$*:"; } && toolloop ready\r`,
    );
    await shell.see(/ran:ready:/);
    for (const [typed, completed] of [
      ['aud', 'audit'],
      ['audit v', 'audit verify'],
      ['inbox deny --re', 'inbox deny --reason'],
      ['mcp list --serv', 'mcp list --servers'],
    ] as const) {
      shell.type(`toolloop ${typed}\t\r`);
      expect(await shell.see(new RegExp(`ran:${completed}:`))).toBeDefined();
    }
    await rm(folder, { recursive: true, force: true });
  });
});
