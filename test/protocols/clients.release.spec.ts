import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { closeApps, type Served } from '../../libs/http/test/served-app.js';
import { closeDesks, type ServedDesk } from '../demo/served-desk.js';
import { briefly, DESK_ANSWERS, mailsOf, serveDesk } from './desk-answers.js';
import { DeskTools, PIECES, ScenarioModel, serveScenarios, type Told } from './scenarios.js';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const run = promisify(execFile);

const model = new ScenarioModel();
let notes: Served;
let desk: ServedDesk;
let told: Readonly<Record<string, Told>>;
let onDesk: Readonly<Record<string, Told>>;
let folder: string | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolloop-clients-'));
  for (const file of ['package.json', 'package-lock.json', 'clients'])
    await cp(join(FOLDER, file), join(folder, file), { recursive: true });
  await run('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: folder });
  notes = await serveScenarios(model);
  desk = await serveDesk();
  const applications = [`notes=${notes.url}`, `desk=${desk.url}`];
  const { stdout } = await run(process.execPath, [join('clients', 'main.mjs'), ...applications], {
    cwd: folder,
  });
  ({ notes: told, desk: onDesk } = JSON.parse(stdout) as {
    readonly notes: typeof told;
    readonly desk: typeof told;
  });
}, 600_000);
afterAll(async () => {
  await Promise.all([closeApps(), closeDesks()]);
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

const SOURCE = ['https://weather.example/', 'The weather'];
const CITED = ['It rains', ['source', ...SOURCE], ' today.'];
const DONE = { injected: [], status: 'ready' };
const COMPLETE = { status: 'complete' };
const ALL = PIECES.join('');
/** What each client has that reads on in the middle: all of the answer, and each piece once. */
const AGAIN = { text: ALL, isSame: true };
const READ_ON = { ...AGAIN, ends: ['success'] };
/**
 * A chat whose answer with a stamp is given anew: its place is kept, and the person sees the stamp
 * once more.
 */
const regenerated = (by: string, calls: readonly unknown[]) => ({
  calls,
  kept: [`user: Stamp for ${by}`, 'assistant: It is stamped.'],
});
/**
 * The same once its question is changed and the stamp asked for again: the one that stands is
 * shown, and the call that was not made.
 */
const changed = (by: string, calls: readonly unknown[]) => ({
  calls: [...calls, ...calls],
  kept: [`user: Stamp it for ${by}`, 'assistant: It has had its stamp.'],
});
const anew = (by: string, calls: readonly unknown[]) => ({
  regenerated: regenerated(by, calls),
  changed: changed(by, calls),
});
const STAMP = ['desk__stamp', 'output-available', 'stamp for use-chat'];
const RESUMED = { text: ALL, roles: ['user', 'assistant'], errors: [] };

describe('a client of others', () => {
  it('understands everything with useChat of the AI SDK, and a page that is loaded again has all of the answer that is under way', () => {
    expect(told['useChat']).toEqual({
      text: { text: 'Hello there.', calls: [], ...DONE },
      call: {
        text: 'It is note n-1.',
        calls: [['notes__read', 'output-available', 'note n-1']],
        ...DONE,
      },
      injected: {
        text: 'Its title is First.',
        calls: [
          ['desk__open', 'output-available', { id: 'p-1' }],
          ['page_p-1_title', 'output-available', 'First'],
        ],
        injected: ['page_p-1_title'],
        status: 'ready',
      },
      failedCall: {
        text: 'The desk is closed.',
        calls: [['desk__broken', 'output-error', 'The desk is closed.']],
        ...DONE,
      },
      failedRun: {
        text: '',
        calls: [],
        injected: [],
        status: 'error: The model could not answer.',
      },
      cited: { text: 'It rains today.', sources: [SOURCE] },
      anew: {
        regenerated: { ...regenerated('use-chat', [STAMP]), status: 'ready' },
        changed: { ...changed('use-chat', [STAMP]), status: 'ready' },
      },
      anewUnderWay: {
        text: ALL,
        kept: ['user: Count anew', `assistant: ${ALL}`],
        first: ['running', 'ended'],
      },
      anewWaiting: { open: [0, 1], late: 'refused', isOther: true },
      anewTwice: {
        kept: ['user: Stamp for use-chat at once', 'assistant: It is stamped.'],
        isLeftAlone: true,
      },
      stopped: {
        calls: [['desk__close', 'output-available', 'closed']],
        status: 'ready',
        requests: 1,
      },
      approved: {
        text: 'That is settled.',
        calls: [['notes__delete', 'output-available', 'deleted n-1']],
        ...DONE,
      },
      denied: { text: 'That is settled.', calls: [['notes__delete', 'output-denied']], ...DONE },
      question: {
        text: 'You have said it.',
        calls: [['desk__size', 'output-available', 'size "M"']],
        ...DONE,
      },
      clientTool: {
        text: 'You have picked one.',
        calls: [['screen__pick', 'output-available', 'red']],
        ...DONE,
      },
      abort: { before: 'running', status: 'ready' },
      reconnect: AGAIN,
    });
  });

  it('understands everything with @ag-ui/client: approvals and questions are interrupts', () => {
    const success = { injected: [], ends: ['success'], errors: [] };
    const resumed = { injected: [], ends: ['interrupt', 'success'], errors: [] };
    expect(told['agUi']).toEqual({
      text: { text: 'Hello there.', calls: [], ...success },
      call: { text: 'It is note n-1.', calls: [['notes__read', 'note n-1']], ...success },
      injected: {
        ...success,
        text: 'Its title is First.',
        calls: [
          ['desk__open', '{"id":"p-1"}'],
          ['page_p-1_title', 'First'],
        ],
        injected: ['page_p-1_title'],
      },
      failedCall: {
        text: 'The desk is closed.',
        calls: [['desk__broken', 'The desk is closed.']],
        ...success,
      },
      failedRun: {
        text: '',
        calls: [],
        injected: [],
        ends: [],
        errors: ['The model could not answer.'],
      },
      approved: { text: 'That is settled.', calls: [['notes__delete', 'deleted n-1']], ...resumed },
      denied: {
        text: 'That is settled.',
        calls: [['notes__delete', 'A person denied this call. They said: Keep it.']],
        ...resumed,
      },
      question: { text: 'You have said it.', calls: [['desk__size', 'size "M"']], ...resumed },
      clientTool: {
        text: 'You have picked one.',
        calls: [['screen__pick', 'red']],
        ...success,
        ends: ['success', 'success'],
      },
      anew: anew('ag-ui', [['desk__stamp', 'stamp for ag-ui']]),
      abort: { hasAll: false },
      reconnect: READ_ON,
    });
  });

  const TEXTS = {
    text: { text: 'Hello there.', calls: [], ...COMPLETE },
    call: { text: 'It is note n-1.', calls: [['notes__read', 'note n-1']], ...COMPLETE },
    injected: {
      text: 'Its title is First.',
      calls: [
        ['desk__open', { id: 'p-1' }],
        ['page_p-1_title', 'First'],
      ],
      ...COMPLETE,
    },
    cited: CITED,
    abort: { hasAll: false },
  };
  const FAILED = {
    text: 'The desk is closed.',
    calls: [['desk__broken', 'The desk is closed.', 'error']],
    ...COMPLETE,
  };
  const PICKED = { text: 'You have picked one.', calls: [['screen__pick', 'red']], ...COMPLETE };

  it('shows in assistant-ui the state of the assistant transport, whose calls are answered by their results', () => {
    expect(told['transport']).toEqual({
      ...TEXTS,
      failedCall: FAILED,
      failedRun: { text: '', calls: [], ...COMPLETE, errors: ['The model could not answer.'] },
      approved: {
        text: 'That is settled.',
        calls: [['notes__delete', 'deleted n-1']],
        ...COMPLETE,
      },
      denied: {
        text: 'That is settled.',
        calls: [['notes__delete', 'A person denied this call.', 'error']],
        ...COMPLETE,
      },
      question: { text: 'You have said it.', calls: [['desk__size', 'size "M"']], ...COMPLETE },
      clientTool: PICKED,
      ownTool: PICKED,
      // it cannot ask for an answer anew
      anew: { changed: changed('transport', [['desk__stamp', 'stamp for transport']]) },
      reconnect: RESUMED,
      resumeState: RESUMED,
    });
  });

  it('shows in assistant-ui the data stream, in which an answer takes the place of a result, so that the result is one more call', () => {
    const settled = { text: 'That is settled.', ...COMPLETE };
    expect(told['dataStream']).toEqual({
      ...TEXTS,
      failedCall: FAILED,
      failedRun: { text: '', calls: [], status: 'incomplete' },
      approved: {
        ...settled,
        calls: [
          ['notes__delete', { approved: true }],
          ['notes__delete', 'deleted n-1'],
        ],
      },
      denied: {
        ...settled,
        calls: [
          ['notes__delete', { approved: false }],
          ['notes__delete', 'A person denied this call.', 'error'],
        ],
      },
      question: {
        text: 'You have said it.',
        calls: [
          ['desk__size', 'M'],
          ['desk__size', 'size "M"'],
        ],
        ...COMPLETE,
      },
      clientTool: PICKED,
      ownTool: PICKED,
    });
  });

  it('shows the stream of the AI SDK in assistant-ui: approvals, questions and tools of the page both ways, and reads on', () => {
    expect(told['aiSdk']).toEqual({
      ...TEXTS,
      failedCall: {
        ...FAILED,
        calls: [['desk__broken', { error: 'The desk is closed.' }, 'error']],
      },
      failedRun: {
        text: '',
        calls: [],
        status: 'incomplete',
        errors: ['The model could not answer.'],
      },
      approved: {
        text: 'That is settled.',
        calls: [['notes__delete', 'deleted n-1']],
        ...COMPLETE,
      },
      denied: {
        text: 'That is settled.',
        calls: [['notes__delete', { error: 'Tool approval denied' }, 'error']],
        ...COMPLETE,
      },
      question: { text: 'You have said it.', calls: [['desk__size', 'size "M"']], ...COMPLETE },
      clientTool: PICKED,
      ownTool: PICKED,
      anew: anew('aiSdk', [['desk__stamp', 'stamp for aiSdk']]),
      cited: ['It rains today.', ['source', ...SOURCE]],
      reconnect: { text: ALL, roles: ['user', 'assistant'] },
    });
  });

  const { clientTool: OWN_TOOL } = DESK_ANSWERS;

  it.each([
    ['useChat', { abort: { before: 'running', status: 'ready' }, reconnect: AGAIN }],
    ['agUi', { abort: { hasAll: false }, reconnect: READ_ON }],
    [
      'transport',
      { ownTool: OWN_TOOL, abort: { hasAll: false }, reconnect: RESUMED, resumeState: RESUMED },
    ],
    [
      'aiSdk',
      {
        ownTool: OWN_TOOL,
        abort: { hasAll: false },
        reconnect: { text: ALL, roles: ['user', 'assistant'] },
      },
    ],
  ])(
    'understands the demo as well, with %s, and reads on in the middle with every event once',
    (client, more) => {
      expect(briefly(onDesk[client] ?? {})).toEqual({ ...DESK_ANSWERS, ...more });
    },
  );

  it('understands the demo with the data stream, which has no way to read on, and shows an answer and a result as two calls', () => {
    const [mail, quote] = [DESK_ANSWERS.approved, DESK_ANSWERS.question];
    const mailed = { ...mail, calls: [...mail.calls, 'orders__sendReceipt'] };
    expect(briefly(onDesk['dataStream'] ?? {})).toEqual({
      ...DESK_ANSWERS,
      approved: mailed,
      denied: mailed,
      question: { ...quote, calls: [...quote.calls, ...quote.calls] },
      ownTool: OWN_TOOL,
      abort: { hasAll: false },
    });
  });

  it('has the demo mail a receipt for each yes, and for no other answer', () => {
    expect(mailsOf(desk)).toBe(5);
  });

  it('has a stamp put once for each person, however often an answer is taken back', () => {
    const { stamped } = notes.app.get(DeskTools, { strict: false });
    // of two people, each in a conversation of their own
    const two = ['use-chat at once', 'use-chat at once'];
    expect(stamped.toSorted()).toEqual(['ag-ui', 'aiSdk', 'transport', 'use-chat', ...two]);
  });

  it('has the model asked once, however often it connects', () => {
    expect(model.asked.filter((question) => question === 'Count again')).toHaveLength(1);
  });
});
