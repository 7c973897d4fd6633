import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { pathOf, type Task } from './task.js';

/**
 * A request to the provider: when it arrived and when its answer was given to the socket, in
 * milliseconds of the clock that all processes share.
 */
export type RequestTimes = readonly [arrived: number, answered: number];

/** The provider's process, as its parent knows it. */
export interface LocalProvider {
  /** As an OpenAI client takes it, up to and including the version. */
  baseURL(task: Task): string;
  /** Returns the times of the requests since it was last asked. */
  requestTimes(): Promise<readonly RequestTimes[]>;
  stop(): Promise<void>;
}

/** @param certificate a file with a key and a certificate in PEM, to speak TLS */
export async function startProvider(certificate?: string): Promise<LocalProvider> {
  const script = fileURLToPath(new URL('provider.process.js', import.meta.url));
  const child = fork(script, certificate === undefined ? [] : [certificate], { execArgv: [] });
  const port = await new Promise<unknown>((resolve) => child.once('message', resolve));
  const origin =
    certificate === undefined
      ? `http://127.0.0.1:${String(port)}`
      : `https://localhost:${String(port)}`;
  return {
    baseURL: (task) => `${origin}${pathOf(task)}`,
    requestTimes: () =>
      new Promise((resolve) => {
        child.once('message', (times: RequestTimes[]) => resolve(times));
        child.send('times');
      }),
    stop: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}
