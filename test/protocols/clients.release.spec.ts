import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { closeApps, serveApp } from '../../libs/http/test/served-app.js';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const run = promisify(execFile);

const READ = [calls(call('notes__read', { id: 'n-1' })), text('It is note n-1.')];
const DELETE = calls(call('notes__delete', { id: 'n-1' }));

let told: Readonly<Record<string, unknown>>;
let folder: string | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolloop-clients-'));
  for (const file of ['package.json', 'package-lock.json', 'clients.mjs']) await cp(join(FOLDER, file), join(folder, file));
  await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder });
  const model = new ScriptedModel([...READ, DELETE, text('Gone.'), ...READ, ...READ, DELETE, text('I keep it.')]);
  const { url } = await serveApp({ model });
  const { stdout } = await run(process.execPath, ['clients.mjs', url], { cwd: folder });
  told = JSON.parse(stdout) as typeof told;
}, 300_000);
afterAll(async () => {
  await closeApps();
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

describe('a client of others', () => {
  it('shows a call and its result with @ag-ui/client, and approves another one', () => {
    expect(told['agUi']).toEqual({
      told: [
        ['user', 'Read it'],
        ['assistant', '{"id":"n-1"}'],
        ['tool', 'note n-1'],
        ['assistant', 'It is note n-1.'],
        ['user', 'Delete it'],
        ['assistant', '{"id":"n-1"}'],
        ['tool', 'deleted n-1'],
        ['assistant', 'Gone.'],
      ],
      ends: ['success', 'interrupt', 'success'],
    });
  });

  it('shows the state of the assistant transport with assistant-stream, and the parts of its data stream', () => {
    const parts = [['tool-call', 'note n-1'], 'It is note n-1.'];
    expect(told['assistantTransport']).toEqual({ parts: [['Read it'], parts], status: 'complete' });
    expect(told['dataStream']).toEqual({ parts, status: 'complete' });
  });

  it('shows a call that waits with the AI SDK, and its denial, and finds nothing to read on', () => {
    expect(told['aiSdk']).toEqual({ asked: ['approval-requested'], done: ['output-denied'], text: 'I keep it.', resumed: null });
  });
});
