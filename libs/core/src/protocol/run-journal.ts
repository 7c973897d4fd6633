import type { JsonObject } from './json.js';
import type { LoopEventSink } from './loop-event.js';

/**
 * One thing a run must know again to go on elsewhere. The key comes from what it is, never from a counter of writes: `begin`, `model:3`, `tool:call_1`,
 * `step:3`, `input:1`, `wait:3:71`, `end:4:90`, and those of a sub-run behind `sub:<its run id>/`. Writing a key again replaces its value. `begin` says of
 * which version they all are: a run of another one is refused.
 */
export interface RunEntry {
  readonly key: string;
  readonly value: JsonObject;
}

/** What keeps one run while it goes on, so that another process can go on with it. It holds what the model read: it is no place for people to look at. */
export interface RunJournal {
  /** Takes the run's events; critical, so that no run is seen to end that is not kept as ended. */
  readonly sink: LoopEventSink;
  /** Whether the run is still this process's: it may have been handed over, or taken over. Then it goes on elsewhere and does nothing more here. */
  readonly isOurs: boolean;
  /** Keeps the entry, and what was noted before. Rejects where that is impossible; then what would follow must not happen. */
  record(entry: RunEntry): Promise<void>;
  /**
   * Keeps the entry with the next that is recorded, or soon: for what would do no harm if it happened again. An entry of a wait or an end is kept with the
   * `run-end` that follows it, and not before.
   */
  note(entry: RunEntry): void;
  /** Gives the run to whoever has room, with what was kept of it, where it was begun: this process cannot continue it now. Nothing more is written. */
  handOver(): void;
}
