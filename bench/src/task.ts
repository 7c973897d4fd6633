/** The task of every driver: a run over the local provider, which wants one tool per step and answers in words in the last. */
export interface Task {
  readonly steps: number;
  /** Text chunks of the last answer. */
  readonly chunks: number;
  /** The provider's writes: every chunk by itself, or each answer in one write. */
  readonly pace: 'chunk by chunk' | 'one write';
}

/** The outcome of a run as its driver saw it; a driver that did less than the task is not compared. */
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
export const PROMPT = 'What did the customers in Dublin order?';
export const INSTRUCTIONS = 'You help support staff. Use the tools; never guess.';
export const TOOL_NAMES = ['bench__customers', 'bench__orders', 'bench__invoices'] as const;

const WORD = ' word,';

/** The text of a last answer of so many chunks. */
export function wordOf(chunk: number): string {
  return chunk === 0 ? 'They' : WORD;
}

export function textOfTask({ chunks }: Task): string {
  return Array.from({ length: chunks }, (_, chunk) => wordOf(chunk)).join('');
}

/** About 1 KB of JSON. */
export function rowsOf(kind: string, { query, page }: TaskArguments): object {
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
