import type { Task } from '../task.js';

/** Work of which every contender does the same. */
export interface Scenario {
  readonly name: 'steps' | 'few' | 'many' | 'long' | 'wide' | 'crowd' | 'secure';
  readonly task: Task;
  /** Runs under way at the same time. @default 1 */
  readonly atOnce?: number;
  /** Tools beside those of the task; a process of its own has them. @default 0 */
  readonly furtherTools?: number;
  /** The provider speaks TLS. @default false */
  readonly secure?: boolean;
}

const STEPS: Task = { steps: 10, chunks: 20, pace: 'one write' };

/**
 * The processes of the contenders are started once for scenarios with the same tools and the same
 * provider.
 */
export const SCENARIOS: readonly Scenario[] = [
  { name: 'steps', task: STEPS },
  { name: 'few', task: { ...STEPS, steps: 1, chunks: 500 } },
  { name: 'many', task: { ...STEPS, steps: 1, chunks: 2000 } },
  { name: 'long', task: { ...STEPS, steps: 200 } },
  { name: 'crowd', task: STEPS, atOnce: 200 },
  { name: 'wide', task: STEPS, furtherTools: 997 },
  { name: 'secure', task: STEPS, secure: true },
];
