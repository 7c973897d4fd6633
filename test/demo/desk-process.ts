import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { programArguments } from '../program.js';

const ARGUMENTS = programArguments('src/main.ts');

export interface StartedDesk {
  readonly process: ChildProcess;
  /** What it has printed until now. */
  readonly output: () => string;
}

/** A process of the demo, with no more of the environment than is given. */
export function start(port: string, storage: NodeJS.ProcessEnv = {}): StartedDesk {
  const {
    OPENAI_API_KEY: _key,
    OPENAI_BASE_URL: _url,
    TOOLLOOP_MODEL: _model,
    DATABASE_URL: _server,
    DATA_DIR: _folder,
    ...env
  } = process.env;
  const child = spawn(process.execPath, ARGUMENTS, {
    env: { ...env, ...storage, PORT: port, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return { process: child, output: () => output };
}

/** Its address. Rejects with what it said where it ends instead. */
export async function untilOpen(started: StartedDesk): Promise<string> {
  while (started.process.exitCode === null) {
    const [, url] = /open at (http:\S+),/.exec(started.output()) ?? [];
    if (url) return url;
    await once(started.process.stdout ?? started.process, 'data');
  }
  throw new Error(started.output());
}
