import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { pathOf, type Task } from './task.js';

/** The provider's process, as its parent knows it. */
export interface LocalProvider {
  /** As an OpenAI client takes it, up to and including the version. */
  baseURL(task: Task): string;
  stop(): Promise<void>;
}

export async function startProvider(): Promise<LocalProvider> {
  const child = fork(fileURLToPath(new URL('provider.process.js', import.meta.url)), { execArgv: [] });
  const port = await new Promise<unknown>((resolve) => child.once('message', resolve));
  return {
    baseURL: (task) => `http://127.0.0.1:${String(port)}${pathOf(task)}`,
    stop: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}
