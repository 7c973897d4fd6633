/** Every limit of a run. Reaching one is a finish reason or an error the model reads, never a lost run. */
export interface Limits {
  readonly steps: number;
  readonly callsPerTool: number;
  /** Calls with the same id and the same canonical arguments. */
  readonly identicalCalls: number;
  readonly runMs: number;
  /** How long a provider may stay silent. */
  readonly modelIdleMs: number;
  readonly toolCallMs: number;
  readonly argumentBytes: number;
  /** Bytes of a result that the model sees. */
  readonly resultBytes: number;
  /** Bytes of results larger than that which a run keeps, so that the model can read on in them; the oldest go first. */
  readonly keptResultBytes: number;
  /** Bytes of the images and files of one result, or of one message from outside. */
  readonly attachmentBytes: number;
  /** How often a call is attempted under `onToolError: 'retry'`, the first attempt included. */
  readonly attempts: number;
  readonly toolCallIdLength: number;
  /**
   * Injected tools that a run may offer one by one; the tools of entities beyond them are grouped, unless `surface` says otherwise. Those take no room from the
   * others.
   */
  readonly injectedTools: number;
  /** Entity instances whose tools a run holds; past it those go whose tools were not used for longest. */
  readonly injectedInstances: number;
  readonly injectionDepth: number;
  /** Unknown tools or refused calls in a row before the run ends. */
  readonly refusalsInARow: number;
  readonly parallelReads: number;
  readonly subRunDepth: number;
  /** Input and output tokens of the whole run, its sub-runs included. */
  readonly tokens: number;
  /**
   * Cost of the whole run's model calls, its sub-runs included, in USD. Where a model reports none and has no price (`prices`), nobody knows it, and the run
   * is beyond. @default none
   */
  readonly usd: number;
}

export const DEFAULT_LIMITS: Limits = {
  steps: 20,
  callsPerTool: 40,
  identicalCalls: 3,
  runMs: 300_000,
  modelIdleMs: 60_000,
  toolCallMs: 30_000,
  argumentBytes: 8 * 1024,
  resultBytes: 32 * 1024,
  keptResultBytes: 8 * 1024 * 1024,
  attachmentBytes: 4 * 1024 * 1024,
  attempts: 3,
  toolCallIdLength: 128,
  injectedTools: 24,
  injectedInstances: 1_000,
  injectionDepth: 3,
  refusalsInARow: 3,
  parallelReads: 8,
  subRunDepth: 1,
  tokens: Number.POSITIVE_INFINITY,
  usd: Number.POSITIVE_INFINITY,
};
