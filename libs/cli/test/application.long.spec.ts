import { afterEach, describe, expect, it } from '@jest/globals';
import { closeTerminals, describeAtTerminal, fileOf, Terminal, toolloop } from './command.js';

afterEach(closeTerminals);

const APP = [
  '--app',
  fileOf('libs/cli/test/notes-app.module.ts'),
  '--actor',
  'alice',
  '--tenant',
  'acme',
];

describe('a command with --app', () => {
  it('lists the tools of its actor, and prints nothing else', async () => {
    const { code, stdout, stderr } = await toolloop(['tools', ...APP]);
    expect([code, stdout]).toEqual([0, expect.stringContaining('notes__count')]);
    expect(stdout).not.toContain('notes__manage');
    expect(stdout).not.toContain('printed by the application');
    expect(stderr).toContain('printed by the application');
  });

  it('calls a tool through the whole pipeline, and says by its exit code what became of it', async () => {
    const made = await toolloop(['call', 'notes__find', '{"word":"eggs"}', '--json', ...APP]);
    expect([made.code, JSON.parse(made.stdout)]).toEqual([
      0,
      expect.objectContaining({
        ui: [expect.objectContaining({ text: 'eggs of acme' })],
        injectedTools: ['note_n1_edit'],
      }),
    ]);
    const refused = await toolloop(['call', 'notes__manage', ...APP]);
    expect([refused.code, refused.stdout]).toEqual([1, expect.stringContaining('notes__')]);
    const waiting = await toolloop(['call', 'notes__send', '{"to":"bob"}', ...APP]);
    expect([waiting.code, waiting.stdout]).toEqual([
      1,
      expect.stringContaining('It waits for an approval: run '),
    ]);
  });

  it.each<[string, readonly string[], string]>([
    ['no application', ['tools'], 'Give --url http://127.0.0.1:3000, or --app dist/app.module.js'],
    ['no actor', ['tools', ...APP.slice(0, 2)], 'Say for whom --app is booted'],
    [
      'arguments that are no object',
      ['call', 'notes__find', '[1]', ...APP],
      'must be a JSON object',
    ],
    ['two exports at once', ['audit', 'verify', 'one.jsonl', 'other.jsonl'], 'too many arguments'],
    [
      'half of a call',
      ['explain', 'notes__find', '--run', 'r', ...APP],
      'A call is named by both: --run and --call.',
    ],
    [
      'a case of a run over --url',
      ['runs', 'case', 'r', '--url', 'http://127.0.0.1:1'],
      'never over --url',
    ],
    [
      'servers that no file names',
      ['mcp', 'diff', '--servers', 'none.json'],
      'There is no file none.json, which would name the servers.',
    ],
    [
      'an explanation for a caller who is no operator',
      ['explain', 'notes__find', ...APP],
      'explain',
    ],
  ])('says what to do for %s', async (_, args, words) => {
    const { code, stderr } = await toolloop(args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
  });
});

describe('toolloop chat --app', () => {
  it('shows a call in plain text where it is piped, asks for no answer and ends with 1 where the run waits', async () => {
    const { code, stdout } = await toolloop(['chat', ...APP], { input: 'Write to bob.\n' });
    expect(stdout).toContain('→ notes__send {"to":"bob"}');
    expect(stdout).toContain('The run waits for an approval.');
    expect(stdout).toMatch(/echo "\/resume \S+" \| toolloop chat, with the options of this one\./);
    expect(stdout).not.toContain('\u001b');
    expect(stdout).not.toMatch(/Approve it\?|^> /m);
    expect(code).toBe(1);
  });
});

describeAtTerminal('toolloop chat --app, at a terminal,', () => {
  it('asks for an approval inline, and continues with the answer', async () => {
    const terminal = new Terminal(['chat', ...APP]);
    await terminal.see(/> /);
    terminal.type('Write to bob.\r');
    await terminal.see(/Mail leaves the house.*Approve it\?/s);
    expect(terminal.text).toContain('\u001b[36m→ notes__send');
    terminal.type('yes\r');
    await terminal.see(/It is sent\./);
    terminal.type('/quit\r');
    expect(await terminal.ended).toBe(0);
  });
});

describeAtTerminal('an approval at a terminal', () => {
  it('is left for later by Ctrl-D, which leaves the chat with the id of the run', async () => {
    const terminal = new Terminal(['chat', ...APP]);
    await terminal.see(/> /);
    terminal.type('Write to bob.\r');
    await terminal.see(/Approve it\?/);
    terminal.type('\u0004');
    await terminal.see(/Continue it with \/resume \S+ once it is answered\./);
    expect(await terminal.ended).toBe(0);
    expect(terminal.text).not.toMatch(/readline|Aborted/);
  });
});

describeAtTerminal('a question at a terminal', () => {
  it('is asked field by field, until each answer can be one, and left for later by Ctrl-C', async () => {
    const terminal = new Terminal(['chat', ...APP], { SPEC_ASKS: '1' });
    await terminal.see(/> /);
    terminal.type('Note the parcel.\r');
    await terminal.see(/Which parcel is it\?.*Weight - in grams \(a number\): /s);
    terminal.type('many\r');
    await terminal.see(/That is not what was asked for\..*Weight - in grams \(a number\): /s);
    terminal.type('2500\r');
    await terminal.see(/express \(yes or no\): /);
    terminal.type('y\r');
    await terminal.see(/size \(S \| M, or nothing for "M"\): /);
    terminal.type('\r');
    await terminal.see(/note \(your answer, or nothing\): /);
    terminal.type('\r');
    await terminal.see(/← \{"grams":2500,"express":true,"size":"M"\}.*It is noted\./s);
    const before = terminal.text.length;
    terminal.type('Note another one.\r');
    await terminal.see(/Weight - in grams \(a number\): /, before);
    terminal.type('\u0003');
    await terminal.see(/Continue it with \/resume \S+ once it is answered\./, before);
    terminal.type('/quit\r');
    expect(await terminal.ended).toBe(0);
  });
});

describe('toolloop', () => {
  it('says its version', async () => {
    expect(await toolloop(['--version'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    });
  });
});

describe('toolloop completion', () => {
  it.each(['bash', 'zsh'])(
    'prints a script for %s with the commands and their options',
    async (shell) => {
      const { code, stdout } = await toolloop(['completion', shell]);
      expect(code).toBe(0);
      expect(stdout).toContain(`'mcp') words='list diff pin --app`);
      expect(stdout).toContain(`'audit verify') words='--url`);
    },
  );

  it('knows no other shell', async () => {
    expect(await toolloop(['completion', 'fish'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('one for bash and one for zsh'),
    });
  });
});
