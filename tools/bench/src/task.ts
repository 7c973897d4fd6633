/**
 * The task of every driver: a run over the local provider, which wants one tool per step and
 * answers in words in the last.
 */
export interface Task {
  readonly steps: number;
  /** Text chunks of the last answer. */
  readonly chunks: number;
  /** The provider's writes: every chunk by itself, or each answer in one write. */
  readonly pace: 'chunk by chunk' | 'one write';
}

/**
 * A task with its number, which decides its texts, ids and arguments, so that no run is like the
 * one before.
 */
export interface NumberedTask extends Task {
  readonly number: number;
}

/**
 * The outcome of a run as its driver saw it; a driver that did less than the task is not compared.
 */
export interface Outcome {
  readonly text: string;
  readonly toolCalls: number;
  /** The bytes of the request bodies, if the driver can tell. */
  readonly bytesSent?: number;
}

/** A tool as all drivers have it. */
export interface TaskTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: object;
  execute(args: TaskArguments): object;
}

export interface TaskArguments {
  readonly query: string;
  readonly page: number;
  readonly open: boolean;
}

export const MODEL = 'bench';
export const INSTRUCTIONS = 'You help support staff. Use the tools; never guess.';
export const TOOL_NAMES = ['bench__customers', 'bench__orders', 'bench__invoices'] as const;

const WORDS = [
  'They',
  ' ordered',
  ' two',
  ' chairs',
  ' and',
  ' a',
  ' “lamp”,',
  ' which',
  ' left',
  ' Dublin',
  ' on',
  ' Friday.',
  '\n',
  ' Nothing',
  ' else',
  ' is',
];

/** Returns the prompt of a task. The provider reads its number there. */
export function promptOf({ number }: NumberedTask): string {
  return `What did the customers in Dublin order? (case #${number})`;
}

/** Returns a chunk of the last answer. */
export function wordOf(chunk: number, number: number): string {
  return WORDS[(chunk * 7 + number * 3) % WORDS.length] ?? '';
}

const texts = new Map<string, string>();

/**
 * Returns the text of a last answer. It is kept, so that the check of an outcome costs next to
 * nothing.
 */
export function textOfTask({ chunks, number }: NumberedTask): string {
  const key = `${chunks} ${number % WORDS.length}`;
  const text =
    texts.get(key) ?? Array.from({ length: chunks }, (_, chunk) => wordOf(chunk, number)).join('');
  texts.set(key, text);
  return text;
}

let watcher: (() => void) | undefined;

/** Has a function called at every call of a tool, whichever driver makes it. */
export function watchCalls(onCall: (() => void) | undefined): void {
  watcher = onCall;
}

/** The milliseconds on the clock that all processes of this machine share. */
export function sharedClock(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** About 1 KB of JSON. */
export function rowsOf(kind: string, { query, page }: TaskArguments): object {
  watcher?.();
  const rows = Array.from({ length: 11 }, (_, index) => ({
    id: `${kind}-${page * 100 + index}`,
    name: `John "${query}" Smith`,
    city: 'Dublin',
    active: true,
    total: 472.19 + index,
  }));
  return { page, rows };
}

/** The path under which the provider plays a task. */
export function pathOf({ steps, chunks, pace }: Task): string {
  return `/${steps}/${chunks}/${pace === 'one write' ? 'whole' : 'paced'}/v1`;
}
