import type { Finding } from '@toolloop/core';
import { isWhole } from '../option-shapes.js';

/** How a process works on durable runs. Times are in milliseconds. */
export interface RunOptions {
  /** How many queued runs a process works on at once. With 0 it only runs those it opens itself. @default 10 */
  readonly concurrency?: number;
  /** How often a process reports that its runs are alive. @default 3000 */
  readonly heartbeatMs?: number;
  /** After how much silence another process takes over a run; several heartbeats. @default 15000 */
  readonly takeoverMs?: number;
  /** How long steps in progress may take at shutdown before they are broken off. @default 10000 */
  readonly drainMs?: number;
}

export const DEFAULT_RUN_OPTIONS: Required<RunOptions> = { concurrency: 10, heartbeatMs: 3_000, takeoverMs: 15_000, drainMs: 10_000 };

/** More is no delay of a timer: Node would make it a millisecond. */
const LONGEST_MS = 2_147_483_647;

/** The least and the most of each. */
const RANGES: Readonly<Record<keyof RunOptions, readonly [number, number]>> = {
  concurrency: [0, 10_000],
  heartbeatMs: [1, LONGEST_MS],
  takeoverMs: [1, LONGEST_MS],
  drainMs: [0, LONGEST_MS],
};

/** With the default of what is not given. */
export function runOptionsOf({ concurrency, heartbeatMs, takeoverMs, drainMs }: RunOptions): Required<RunOptions> {
  return {
    concurrency: concurrency ?? DEFAULT_RUN_OPTIONS.concurrency,
    heartbeatMs: heartbeatMs ?? DEFAULT_RUN_OPTIONS.heartbeatMs,
    takeoverMs: takeoverMs ?? DEFAULT_RUN_OPTIONS.takeoverMs,
    drainMs: drainMs ?? DEFAULT_RUN_OPTIONS.drainMs,
  };
}

/** What is wrong with them. */
export function runFindings(options: RunOptions): Finding[] {
  const unknown = Object.keys(options).filter((name) => !Object.hasOwn(RANGES, name));
  const wrong = Object.entries(RANGES).flatMap(([name, [least, most]]) => {
    const value: unknown = Reflect.get(options, name);
    if (value === undefined || isWhole(value, least, most)) return [];
    return [finding(` ${name}`, 'It is not a number that makes sense.', `Give a whole number from ${least} to ${most}, or leave it out.`)];
  });
  const known = Object.keys(RANGES).join(', ');
  return [
    ...unknown.map((name) => finding('', `There is no option "${name}".`, `There are ${known}.`)),
    ...wrong,
    ...(wrong.length > 0 ? [] : silenceFindings(runOptionsOf(options))),
  ];
}

function silenceFindings({ heartbeatMs, takeoverMs }: Required<RunOptions>): Finding[] {
  if (takeoverMs >= 2 * heartbeatMs) return [];
  const remedy = 'Give more, or a shorter heartbeatMs: otherwise a run is taken from a healthy process.';
  return [finding(' takeoverMs', `It is ${takeoverMs}, less than two heartbeats of ${heartbeatMs}.`, remedy)];
}

function finding(at: string, problem: string, remedy: string): Finding {
  return { at: `DurableModule runs${at}`, problem, remedy };
}
