import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { programArguments } from '../../../test/program.js';

const PROGRAM = programArguments('libs/cli/src/main.ts');

/** The time that a test may take which starts whole applications in processes of their own, on a machine that is busy. */
export const SLOW_START_MS = 180_000;

/** A file of the project as a process loads it: the sources, or what `tsc` emitted of them. */
export const fileOf = (path: string): string => programArguments(path).at(-1) ?? path;

/** Node's arguments that run the command line. */
export const commandArguments = (...args: readonly string[]): string[] => [...PROGRAM, ...args];

/** The environment of a process, without the settings of whoever runs the tests. */
export function environment(more: NodeJS.ProcessEnv = {}): Record<string, string> {
  const { FORCE_COLOR: _color, ...env } = process.env;
  const known = Object.entries({ ...env, NO_COLOR: '1', ...more });
  return Object.fromEntries(
    known.flatMap(([name, value]) => (value === undefined || name.startsWith('TOOLLOOP_TEST') ? [] : [[name, value]])),
  );
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command line as a process, and waits for its end. */
export async function toolloop(
  args: readonly string[],
  { env = {}, input = '' }: { env?: NodeJS.ProcessEnv; input?: string } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, commandArguments(...args), { env: environment(env), stdio: ['pipe', 'pipe', 'pipe'] });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  child.stdin.end(input);
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, stdout, stderr };
}
