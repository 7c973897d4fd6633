import type { Task, TaskTool } from '../task.js';

/**
 * The work that a contender does in its process, between two moments at which its CPU time is read.
 */
export interface Slice {
  readonly task: Task;
  readonly baseURL: string;
  readonly runs: number;
  /** Runs that are under way at the same time. */
  readonly atOnce: number;
}

/** A tool as it travels between processes: everything but its function. */
export type DeclaredTool = Omit<TaskTool, 'execute'>;

/** A message to a contender's process. */
export type Order =
  | { readonly type: 'tools'; readonly tools: readonly DeclaredTool[] }
  | ({ readonly type: 'slice' } & Slice);

/**
 * When a run began and when its tools were called, in milliseconds of the clock that all processes
 * share.
 */
export interface RunTimes {
  readonly began: number;
  readonly called: readonly number[];
}

/**
 * The figures of a slice: times in microseconds, the longest pause of the event loop in
 * milliseconds, the resident memory in bytes.
 */
export interface SliceReport {
  readonly cpu: number;
  readonly wall: number;
  readonly longestPause: number;
  readonly residentBytes: number;
  readonly runs: readonly RunTimes[];
}

/**
 * A message of a contender's process: its tools when it is ready, a report of each slice, or the
 * reason why it can go no further.
 */
export type Answer =
  | { readonly type: 'ready'; readonly tools: readonly DeclaredTool[] }
  | { readonly type: 'report'; readonly report: SliceReport }
  | { readonly type: 'failed'; readonly message: string };

/** The drivers, by the names that the table shows. Peers are files of bench/peers. */
export const CONTENDERS = {
  floor: 'hand-written on node:http',
  toolloop: 'Toolloop, with its defaults',
  bare: 'Toolloop, bare',
  openai: 'openai SDK, loop by hand',
  'openai-run-tools': 'openai SDK, runTools',
  'tanstack-ai': 'TanStack AI',
  'ai-sdk': 'AI SDK 7',
  'openai-agents': 'OpenAI Agents',
  langchain: 'LangChain',
  langgraph: 'LangGraph',
  mastra: 'Mastra',
} as const;

/** Toolloop with its defaults and with telemetry, which is measured beside Toolloop without. */
export const OBSERVED = {
  silent: 'with telemetry, and no SDK',
  seen: 'with spans and metrics',
} as const;

export type ContenderName = keyof typeof CONTENDERS;
