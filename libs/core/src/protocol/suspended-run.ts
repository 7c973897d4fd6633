import type { JsonObject } from './json.js';

/** A run that waits for decisions, as JSON: enough to go on after them. */
export interface SuspendedRun {
  /** Of the form of `content`; a run of another version is refused. */
  readonly version: 1;
  readonly runId: string;
  readonly tenant: string;
  /** For whom it runs; nobody else resumes it. */
  readonly actorId?: string;
  readonly content: JsonObject;
}

/** The port that keeps runs which wait for decisions. */
export abstract class SuspendedRunStore {
  abstract save(run: SuspendedRun): Promise<void>;
  abstract find(runId: string): Promise<SuspendedRun | undefined>;
  /** Takes the run out, atomically: of two who resume it at once one gets it. */
  abstract take(runId: string): Promise<SuspendedRun | undefined>;
}
