import { spawnSync } from 'node:child_process';

/** One entry of a named function of core, in the order of execution. */
export interface Entered {
  readonly file: string;
  readonly name: string;
}

/**
 * The functions of core that one run with one read call entered, and those of them that
 * `ToolRunner.exec` entered.
 */
export interface CallTrace {
  readonly run: readonly Entered[];
  readonly exec: readonly Entered[];
}

const ARGUMENTS = [
  '--conditions=@toolloop/source',
  '--import',
  '@swc-node/register/esm-register',
  'test/architecture/trace/main.ts',
];

/**
 * Traces one read call in a process of its own, whose sources of core are instrumented as they are
 * loaded.
 *
 * @throws Error where the process fails, with what it printed.
 */
export function traceReadCall(): CallTrace {
  const { status, stdout, stderr } = spawnSync(process.execPath, ARGUMENTS, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(`The traced run failed.\n${stderr}`);
  return JSON.parse(stdout) as CallTrace;
}

/** The files that were entered, each once, in the order of their first entry. */
export function filesEntered(entered: readonly Entered[]): readonly string[] {
  return [...new Set(entered.map(({ file }) => file))];
}

/** The number of times that a function was entered in another file than the one before it. */
function movesBetweenFiles(entered: readonly Entered[]): number {
  return entered.filter(({ file }, index) => index > 0 && entered[index - 1]?.file !== file).length;
}

/**
 * The functions, files and moves of a part of the trace in a sentence: a reader's measure of how
 * far a call travels.
 */
export function reportOf(part: string, entered: readonly Entered[]): string {
  const functions = new Set(entered.map(({ file, name }) => `${file} ${name}`)).size;
  return `One read call: ${part} enters ${functions} functions in ${filesEntered(entered).length} files, ${entered.length} times, and moves between files ${movesBetweenFiles(entered)} times.`;
}
