import { ABOVE_ZERO, NOT_NEGATIVE } from '../findings/option-rules.js';
import { defineOptions } from '../findings/options.js';

/**
 * Every limit of a run. One that is reached ends the run with a finish reason, is an error that the
 * model reads, or cuts, groups or queues what is beyond it; no run is lost.
 */
export interface Limits {
  /** Model answers with their calls; then the run ends with `max_steps`. @default 20 */
  readonly steps: number;
  /** Calls of one tool; then the run ends with `max_calls`. @default 40 */
  readonly callsPerTool: number;
  /**
   * Calls with the same id and the same canonical arguments; then the run ends with `no_progress`.
   * @default 3
   */
  readonly identicalCalls: number;
  /** Milliseconds of the whole run; then it ends with `timeout`. @default 300,000 */
  readonly runMs: number;
  /**
   * Milliseconds until a provider's answer begins with a byte of any kind. @default `modelIdleMs`
   */
  readonly modelFirstByteMs: number;
  /**
   * Milliseconds until the first content of an answer. A provider that pings or reasons in silence
   * is alive, and sends none. @default 180,000
   */
  readonly modelFirstContentMs: number;
  /** Milliseconds a provider may send nothing at all in the middle of an answer. @default 60,000 */
  readonly modelIdleMs: number;
  /** Milliseconds of one attempt of a call. @default 30,000 */
  readonly toolCallMs: number;
  /** Milliseconds of one hook of a plugin. @default 5,000 */
  readonly pluginMs: number;
  /** Bytes of one call's arguments. @default 8 KB */
  readonly argumentBytes: number;
  /** Bytes of a result that the model sees. @default 32 KB */
  readonly resultBytes: number;
  /**
   * Bytes that a run keeps of results larger than that, so that the model can read on; the oldest
   * are dropped first. @default 8 MB
   */
  readonly keptResultBytes: number;
  /** Bytes of the images and files of one result, or of one message from outside. @default 4 MB */
  readonly attachmentBytes: number;
  /**
   * Images and files of a request. Beyond that, the oldest are replaced by notes, down to half;
   * those of the newest question and of the newest step are always sent.
   * @default 10
   */
  readonly sentMedia: number;
  /** The most attempts at a call under `onToolError: 'retry'`, the first included. @default 3 */
  readonly attempts: number;
  /** Characters of a tool call id. @default 128 */
  readonly toolCallIdLength: number;
  /**
   * Tools that a step offers before the log warns, once for a loop: models choose worse and pay
   * more for every further one. @default 40
   */
  readonly offeredTools: number;
  /**
   * Injected tools that are offered one by one; beyond that, entity tools are grouped, unless
   * `surface` says otherwise. Entity tools take no room from the others. @default 24
   */
  readonly injectedTools: number;
  /**
   * Entity instances whose tools a run holds; beyond that, the least recently used are removed.
   * @default 1,000
   */
  readonly injectedInstances: number;
  /**
   * The most steps from entity to entity: 1 for entities that a service tool returned. @default 3
   */
  readonly injectionDepth: number;
  /** Unknown tools or refused calls in a row before the run ends. @default 3 */
  readonly refusalsInARow: number;
  /** Reads of one step that run at once. @default 8 */
  readonly parallelReads: number;
  /** The most levels of sub-runs; 0 for none. @default 1 */
  readonly subRunDepth: number;
  /** Input and output tokens of the whole run, its sub-runs included. @default no limit */
  readonly tokens: number;
  /**
   * Cost of the whole run's model calls in USD, its sub-runs included. If an answer has neither a
   * reported cost nor a price (`prices`), the cost is unknown and counts as exceeding the limit.
   * @default no limit
   */
  readonly usd: number;
}

export const DEFAULT_LIMITS: Limits = {
  steps: 20,
  callsPerTool: 40,
  identicalCalls: 3,
  runMs: 300_000,
  modelFirstByteMs: 60_000,
  modelFirstContentMs: 180_000,
  modelIdleMs: 60_000,
  toolCallMs: 30_000,
  pluginMs: 5_000,
  argumentBytes: 8 * 1024,
  resultBytes: 32 * 1024,
  keptResultBytes: 8 * 1024 * 1024,
  attachmentBytes: 4 * 1024 * 1024,
  sentMedia: 10,
  attempts: 3,
  toolCallIdLength: 128,
  offeredTools: 40,
  injectedTools: 24,
  injectedInstances: 1_000,
  injectionDepth: 3,
  refusalsInARow: 3,
  parallelReads: 8,
  subRunDepth: 1,
  tokens: Number.POSITIVE_INFINITY,
  usd: Number.POSITIVE_INFINITY,
};

/** Every limit, as a number that is not negative; `Infinity` for none. */
export const LIMITS = defineOptions<Partial<Limits>>(
  {
    steps: NOT_NEGATIVE,
    callsPerTool: NOT_NEGATIVE,
    identicalCalls: NOT_NEGATIVE,
    runMs: { ...ABOVE_ZERO, wanted: 'milliseconds, more than 0' },
    modelFirstByteMs: NOT_NEGATIVE,
    modelFirstContentMs: NOT_NEGATIVE,
    modelIdleMs: NOT_NEGATIVE,
    toolCallMs: NOT_NEGATIVE,
    pluginMs: NOT_NEGATIVE,
    argumentBytes: NOT_NEGATIVE,
    resultBytes: NOT_NEGATIVE,
    keptResultBytes: NOT_NEGATIVE,
    attachmentBytes: NOT_NEGATIVE,
    sentMedia: NOT_NEGATIVE,
    attempts: NOT_NEGATIVE,
    toolCallIdLength: NOT_NEGATIVE,
    offeredTools: NOT_NEGATIVE,
    injectedTools: NOT_NEGATIVE,
    injectedInstances: NOT_NEGATIVE,
    injectionDepth: NOT_NEGATIVE,
    refusalsInARow: NOT_NEGATIVE,
    parallelReads: NOT_NEGATIVE,
    subRunDepth: NOT_NEGATIVE,
    tokens: NOT_NEGATIVE,
    usd: NOT_NEGATIVE,
  },
  { wording: { unknown: 'There is no limit "*".', option: 'The limit "*"' } },
);
