import type {
  JsonObject,
  MessageLabels,
  StorageUnavailableError,
  SubRunRecord,
  ToolFailure,
  ToolSpec,
  WaitingFor,
} from '@toolloop/protocol';
import type { ExecutionScope, PlacedCall } from '../../call/call.js';
import type { SubRun } from '../../contracts/loop-request.js';

/**
 * Performs the calls that are runs, within one run. Whatever happens, a sub-run that has begun
 * ends, and says how.
 */
export interface SubRuns {
  run(call: SubRunCall): Promise<SubRunEnding>;
}

/**
 * The part of a waiting sub-run that is no JSON and lives as long as the process does. Only the
 * loop knows its fields.
 */
export abstract class SubRunProcessState {
  /** The size of the results that its model can read in pages, in bytes. */
  abstract readonly keptBytes: number;
  abstract forgetPages(): void;
}

/** A sub-run that waits for a decision. */
export interface SubRunCheckpoint {
  /** The state with which a sub-run is resumed. */
  readonly saved: JsonObject;
  /** With which it was begun. */
  readonly args: JsonObject;
  /** The record of the sub-run until now. */
  readonly record: SubRunRecord;
  readonly processState?: SubRunProcessState;
}

export interface SubRunCall {
  readonly subRun: SubRun;
  readonly tool: ToolSpec;
  readonly prompt: string;
  readonly args: JsonObject;
  readonly request: PlacedCall;
  readonly scope: ExecutionScope;
  /** The time for the sub-run, in milliseconds. */
  readonly ms: number;
  readonly signal: AbortSignal;
}

export type SubRunEnding = { readonly record: SubRunRecord } & (
  | { readonly status: 'succeeded'; readonly result: JsonObject; readonly labels: MessageLabels }
  | { readonly status: 'failed'; readonly failure: ToolFailure; readonly labels: MessageLabels }
  | ({ readonly status: 'waiting' } & PausedSubRun)
);

/** A sub-run that waits, and the reason. */
interface PausedSubRun {
  readonly checkpoint: SubRunCheckpoint;
  readonly waitingFor?: WaitingFor;
  /** Set where it waits for a store that does not answer for now, not for a person. */
  readonly unavailable?: StorageUnavailableError;
}
