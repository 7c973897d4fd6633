import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { pathToFileURL } from 'node:url';

/** What the process of a desk says about itself. */
export interface Vitals {
  /** Bytes of JavaScript's heap after a full collection. */
  readonly heapBytes: number;
  /**
   * The 99th percentile of the event loop's delay since it was asked last, in milliseconds; the
   * collection is left out.
   */
  readonly delayP99Ms: number;
  /**
   * The 99th percentile and the longest of what its thread did on a CPU between two turns of a
   * timer of 10 ms: the part of the delay that is its own, however busy the machine is.
   */
  readonly workP99Ms: number;
  readonly longestWorkMs: number;
}

/**
 * What a process holds: its timers, sockets and requests, and the listeners of the process, counted
 * by kind.
 */
export interface Held {
  readonly held: Readonly<Record<string, number>>;
  /** The rejections that no one handled, with their stacks. */
  readonly unhandled: readonly string[];
}

/** A built demo in a process of its own, that is measured from outside. */
export interface MeasuredDesk {
  readonly url: string;
  readonly pid: number;
  vitals(): Promise<Vitals>;
  held(): Promise<Held>;
  /** Milliseconds of CPU that the process has used, all threads included. */
  cpuMs(): Promise<number>;
  /** Everything it has printed. */
  output(): string;
  stop(): Promise<void>;
}

type Answer = Vitals & Held & { readonly cpuMs: number };

const PROBE = pathToFileURL('test/soak/probe.mjs').href;

/**
 * Starts the demo on a free port, with no more of the environment than is given. Run
 * `npm run build` first.
 */
export async function startDesk(env: NodeJS.ProcessEnv = {}): Promise<MeasuredDesk> {
  const child = spawn(process.execPath, ['--expose-gc', '--import', PROBE, 'dist/main.js'], {
    env: { PATH: process.env['PATH'], NO_COLOR: '1', PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  const ask = async (wanted: 'vitals' | 'cpu' | 'held'): Promise<Answer> => {
    child.send(wanted);
    const [answer] = (await once(child, 'message')) as [Answer];
    return answer;
  };
  const cpuMs = async (): Promise<number> => (await ask('cpu')).cpuMs;
  for (;;) {
    const [, url] = /open at (http:\S+),/.exec(output) ?? [];
    if (url !== undefined)
      return {
        url,
        pid: child.pid ?? 0,
        vitals: () => ask('vitals'),
        held: () => ask('held'),
        cpuMs,
        output: () => output,
        stop,
      };
    if (child.exitCode !== null || !child.stdout) throw new Error(output);
    await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
  }
}
