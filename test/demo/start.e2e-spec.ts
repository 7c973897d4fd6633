import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';

const ARGUMENTS = ['--conditions=@toolloop/source', '--import', '@swc-node/register/esm-register', 'src/main.ts'];

function start(port: string): { process: ChildProcess; output: () => string } {
  const { OPENAI_API_KEY: _key, OPENAI_BASE_URL: _url, ...env } = process.env;
  const child = spawn(process.execPath, ARGUMENTS, { env: { ...env, PORT: port, NO_COLOR: '1' }, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return { process: child, output: () => output };
}

async function untilOpen(started: ReturnType<typeof start>): Promise<string> {
  while (started.process.exitCode === null) {
    const [, url] = /open at (http:\S+),/.exec(started.output()) ?? [];
    if (url) return url;
    await once(started.process.stdout ?? started.process, 'data');
  }
  throw new Error(started.output());
}

describe('npm start', () => {
  it('says where it is open, and in one line when the port is taken', async () => {
    const first = start('0');
    const url = await untilOpen(first);
    expect(first.output()).toContain(`curl -N ${url}/chat`);
    expect((await fetch(`${url}/health`)).status).toBe(200);

    const { port } = new URL(url);
    const second = start(port);
    expect((await once(second.process, 'exit'))[0]).toBe(1);
    expect(second.output().trim().split('\n').at(-1)).toBe(
      `Port ${port} is taken. Choose another one, e.g. PORT=${Number(port) + 1} npm start`,
    );

    first.process.kill('SIGTERM');
    expect((await once(first.process, 'exit'))[0]).toBe(0);
  }, 60_000);
});
