import type { Finding } from '@toolloop/core';

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

/** What is wrong with them. */
export function runFindings(options: RunOptions): Finding[] {
  const at = 'DurableModule runs';
  const known = Object.keys(DEFAULT_RUN_OPTIONS);
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  const wrong = Object.entries(options).filter(
    ([name, value]) => known.includes(name) && !(Number(value) >= (name === 'concurrency' ? 0 : 1)),
  );
  const { heartbeatMs, takeoverMs } = { ...DEFAULT_RUN_OPTIONS, ...options };
  return [
    ...unknown.map((name) => ({ at, problem: `There is no option "${name}".`, remedy: `There are ${known.join(', ')}.` })),
    ...wrong.map(([name]) => ({
      at,
      problem: `Its ${name} is no number that makes sense.`,
      remedy: 'Give a whole number above 0, or leave it out.',
    })),
    ...(takeoverMs >= 2 * heartbeatMs
      ? []
      : [
          {
            at,
            problem: 'Its takeoverMs is less than two heartbeats.',
            remedy: 'Give more: a run whose process is well would be taken from it.',
          },
        ]),
  ];
}
