import type { NumberedTask, Outcome } from '../task.js';

/** Something that can do a task. */
export interface Driver {
  readonly name: string;
  /**
   * Runs in the time in which Toolloop does one, roughly, so that every driver's samples take about
   * as long.
   */
  readonly speed: number;
  run(task: NumberedTask, baseURL: string): Promise<Outcome>;
  close(): void | Promise<void>;
}
