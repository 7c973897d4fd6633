import { describe } from '@jest/globals';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { programArguments } from '../../../test/program.js';

const PROGRAM = programArguments('libs/cli/src/main.ts');

/** A file of the project as a process loads it: the sources, or what `tsc` emitted of them. */
export const fileOf = (path: string): string => programArguments(path).at(-1) ?? path;

/** Node's arguments that run the command line. */
export const commandArguments = (...args: readonly string[]): string[] => [...PROGRAM, ...args];

/**
 * The environment of a process, with no colours, and without the servers that the tests are told
 * of.
 */
export function environment(more: NodeJS.ProcessEnv = {}): Record<string, string> {
  const { FORCE_COLOR: _color, ...env } = process.env;
  const known = Object.entries({ ...env, NO_COLOR: '1', ...more });
  return Object.fromEntries(
    known.flatMap(([name, value]) =>
      value === undefined || name.startsWith('TOOLLOOP_TEST') ? [] : [[name, value]],
    ),
  );
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The program of util-linux that gives a process a terminal. */
const SCRIPT = '/usr/bin/script';

const hasTerminal = existsSync(SCRIPT);
const suite = hasTerminal ? describe : describe.skip;
const REASON = hasTerminal ? '' : ` [skipped: there is no ${SCRIPT}, a part of util-linux]`;

/**
 * Groups tests at a terminal, which are skipped with the reason on a machine that has no program
 * for one.
 */
export function describeAtTerminal(name: string, body: () => void): void {
  suite(`${name}${REASON}`, body);
}

const terminals = new Set<Terminal>();

/**
 * Closes every terminal, also that of a test which took too long: what waits at it would keep the
 * worker alive.
 */
export function closeTerminals(): void {
  for (const terminal of terminals) terminal.kill();
  terminals.clear();
}

/**
 * The command line of Toolloop, or another program, at a terminal of its own, as a person uses it.
 */
export class Terminal {
  private readonly child: ChildProcessWithoutNullStreams;
  private shown = '';
  readonly ended: Promise<number | null>;

  constructor(args: readonly string[], env: NodeJS.ProcessEnv = {}, program?: string) {
    const { NO_COLOR: _plain, ...rest } = environment({ TERM: 'xterm', ...env });
    const command =
      program === undefined ? [process.execPath, ...commandArguments(...args)] : [program, ...args];
    const quoted = command.map((one) => `'${one.replaceAll("'", `'\\''`)}'`).join(' ');
    this.child = spawn(SCRIPT, ['-qec', quoted, '/dev/null'], { env: rest });
    terminals.add(this);
    this.ended = new Promise((resolve) => this.child.once('close', resolve));
    this.child.stdout.on('data', (chunk: Buffer) => (this.shown += chunk.toString()));
  }

  /** All that was shown, with the colours. */
  get text(): string {
    return this.shown;
  }

  type(keys: string): void {
    this.child.stdin.write(keys);
  }

  /** Waits until something stands there behind what was seen before, and returns it. */
  async see(wanted: RegExp, after = 0): Promise<RegExpExecArray> {
    for (;;) {
      const found = wanted.exec(this.shown.slice(after));
      if (found) return found;
      if (this.child.exitCode !== null || this.child.signalCode !== null)
        throw new Error(`It has ended, and showed: ${this.shown}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }
}

/** Runs one command line as a process, and waits for its end. */
export async function toolloop(
  args: readonly string[],
  { env = {}, input = '' }: { env?: NodeJS.ProcessEnv; input?: string } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, commandArguments(...args), {
    env: environment(env),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  child.stdin.end(input);
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, stdout, stderr };
}
