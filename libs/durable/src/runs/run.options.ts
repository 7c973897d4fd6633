/** How durable runs are gone on with. Times are milliseconds. */
export interface RunOptions {
  /** How many queued runs a process goes on with at once. 0: none, it only opens runs of its own. @default 10 */
  readonly concurrency?: number;
  /** How often a process tells that its runs go on. @default 3000 */
  readonly heartbeatMs?: number;
  /** After how much silence another process takes a run over; several heartbeats. @default 15000 */
  readonly takeoverMs?: number;
  /** How long the steps in flight have at shutdown before they are broken off. @default 10000 */
  readonly drainMs?: number;
}

export const DEFAULT_RUN_OPTIONS: Required<RunOptions> = { concurrency: 10, heartbeatMs: 3_000, takeoverMs: 15_000, drainMs: 10_000 };
