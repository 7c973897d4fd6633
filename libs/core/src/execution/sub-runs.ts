import type { StorageUnavailableError } from '../protocol/errors.js';
import type { JsonObject } from '../protocol/json.js';
import type { MessageLabels } from '../protocol/message.js';
import type { SubRun, SubRunRecord } from '../protocol/sub-run.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { ToolSpec } from '../protocol/tool.js';
import type { CallRequest, ExecutionScope } from './execution.scope.js';

/** What of a sub-run that waits is no JSON: whoever performs it knows what it is. It lives as long as the process does. */
export abstract class SubRunRemains {
  /** Of results that its model can read on in. */
  abstract readonly keptBytes: number;
  abstract forgetPages(): void;
}

/** A sub-run that waits for a decision. */
export interface BegunSubRun {
  /** Enough to go on. */
  readonly saved: JsonObject;
  /** With which it was begun. */
  readonly args: JsonObject;
  /** What it did until now. */
  readonly record: SubRunRecord;
  readonly remains?: SubRunRemains;
}

/** A call that is a run. */
export interface SubRunCall {
  readonly subRun: SubRun;
  readonly tool: ToolSpec;
  readonly prompt: string;
  readonly args: JsonObject;
  readonly request: CallRequest;
  readonly scope: ExecutionScope;
  /** How long it may take. */
  readonly ms: number;
  readonly signal: AbortSignal;
}

/** What a sub-run came to. */
export type SubRunEnding = { readonly record: SubRunRecord } & (
  | { readonly status: 'succeeded'; readonly result: JsonObject; readonly labels: MessageLabels }
  | { readonly status: 'failed'; readonly failure: ToolFailure; readonly labels: MessageLabels }
  /** `unavailable` where it waits for a store that does not answer for now, not for a person. */
  | { readonly status: 'waiting'; readonly begun: BegunSubRun; readonly unavailable?: StorageUnavailableError }
);

/** Performs the calls that are runs, within one run. Whatever happens, a sub-run that has begun ends, and says how. */
export interface SubRuns {
  run(call: SubRunCall): Promise<SubRunEnding>;
}
