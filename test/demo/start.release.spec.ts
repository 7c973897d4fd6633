import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { start, untilOpen } from './desk-process.js';

const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

describe('npm start', () => {
  it('says where it is open and what to ask it, with no warning, and in one line when the port is taken', async () => {
    const first = start('0');
    const url = await untilOpen(first);
    // the link to the console is there where its page is built
    const lines = first.output().trim().split('\n');
    expect(
      lines.filter(
        (line) => !line.startsWith(`Its console, for Alice and this once: ${url}/console#link=`),
      ),
    ).toEqual([
      expect.stringContaining(`The order desk is open at ${url}`),
      expect.stringContaining(`curl -N ${url}/chat`),
    ]);
    expect((await fetch(`${url}/health`)).status).toBe(200);

    const { port } = new URL(url);
    const second = start(port);
    expect((await once(second.process, 'exit'))[0]).toBe(1);
    expect(second.output()).toBe(
      `Port ${port} is taken. Choose another one, e.g. PORT=${Number(port) + 1} npm start\n`,
    );

    first.process.kill('SIGTERM');
    expect((await once(first.process, 'exit'))[0]).toBe(0);
  });

  it('gives its folder to no other process while it lives, and gives it back when it is told to stop', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolloop-start-'));
    folders.push(folder);
    const DATA_DIR = join(folder, 'data');
    const first = start('0', { DATA_DIR });
    const url = await untilOpen(first);
    expect(first.output()).toContain(`It keeps orders, runs and approvals in ${DATA_DIR}.`);

    const second = start('0', { DATA_DIR });
    expect((await once(second.process, 'exit'))[0]).toBe(1);
    expect(second.output().trim().split('\n')).toEqual([
      expect.stringMatching(
        `^DATA_DIR: The database folder ${DATA_DIR} is in use by process ${first.process.pid}`,
      ),
    ]);
    expect(second.output()).toContain(
      'give each process its own folder, or let several share one PostgreSQL',
    );

    const headers = { authorization: 'Bearer demo-alice', 'content-type': 'application/json' };
    const body = JSON.stringify({ message: 'Refund order o-1021' });
    const { runId } = (await (
      await fetch(`${url}/runs`, { method: 'POST', headers, body })
    ).json()) as { runId: string };
    const watched = await fetch(`${url}/runs/${runId}/events`, { headers });
    const reader = watched.body?.pipeThrough(new TextDecoderStream()).getReader();
    let shown = '';
    while (!shown.includes('data: ')) shown += (await reader?.read())?.value ?? '';
    first.process.kill('SIGTERM');
    while ((await reader?.read())?.done === false); // it ends, and is not broken off
    expect((await once(first.process, 'exit'))[0]).toBe(0);
    expect((await readdir(DATA_DIR)).filter((name) => name.endsWith('.lock'))).toEqual([]);
  });

  it('says once what is wrong with a setting', async () => {
    const started = start('0', { OPENAI_BASE_URL: 'notaurl' });
    expect((await once(started.process, 'exit'))[0]).toBe(1);
    expect(started.output()).toBe(
      'OPENAI_BASE_URL is "notaurl"; it must be an address such as http://127.0.0.1:11434/v1.\n',
    );
  });

  it('says at once what to do about a folder that cannot be made', async () => {
    const started = start('0', { DATA_DIR: '/proc/x' });
    expect((await once(started.process, 'exit'))[0]).toBe(1);
    expect(started.output().trim().split('\n')).toEqual([
      expect.stringMatching(
        /^DATA_DIR: The folder \/proc\/x cannot be created.* Name a folder that this process may create and write to/,
      ),
    ]);
  });

  it.each([
    [
      'postgres://desk:hidden@127.0.0.1:1/desk',
      'Start the server and check host, port, user and database.',
    ],
    ['mysql://127.0.0.1/desk', 'Give postgres://user:password@host:5432/database'],
  ])(
    'says what to do about the server %s',
    async (DATABASE_URL, remedy) => {
      const started = start('0', { DATABASE_URL });
      expect((await once(started.process, 'exit'))[0]).toBe(1);
      expect(started.output().trim().split('\n')).toEqual([
        expect.stringMatching(/^DATABASE_URL: /),
      ]);
      expect(started.output()).toContain(remedy);
      expect(started.output()).not.toContain('hidden');
    },
    300_000,
  );
});
