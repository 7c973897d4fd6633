import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';

/**
 * Starts a process of Node.js, kills it with SIGKILL in the moment that it tells, and resolves once
 * it is gone.
 *
 * @throws {Error} Where it ends by itself before, with what it wrote to the standard error.
 *
 * @example
 * const runId = await killedProcess({
 *   args: ['dist/worker.js'],
 *   until: (said) => (typeof said === 'string' ? said : undefined),
 * });
 */
export async function killedProcess<Said>({
  args,
  until,
  options = {},
}: DoomedProcess<Said>): Promise<Said> {
  const child = spawn(process.execPath, [...args], {
    ...options,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  const said = await momentOf(child, until);
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()));
  child.kill('SIGKILL');
  await gone;
  return said;
}

/**
 * A process to be killed: the arguments of Node.js, and what it says by `process.send` when its
 * moment has come.
 */
export interface DoomedProcess<Said> {
  readonly args: readonly string[];
  /**
   * Takes what the process says; what it returns, other than undefined, is the moment to kill it.
   */
  readonly until: (message: unknown) => Said | undefined;
  readonly options?: SpawnOptions;
}

function momentOf<Said>(child: ChildProcess, until: DoomedProcess<Said>['until']): Promise<Said> {
  let written = '';
  child.stderr?.on('data', (chunk: Buffer) => (written += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on('message', (message) => {
      const said = until(message);
      if (said !== undefined) resolve(said);
    });
    child.once('error', reject);
    child.once('close', (code) =>
      reject(new Error(`The process ended by itself with ${code}.\n${written}`)),
    );
  });
}
