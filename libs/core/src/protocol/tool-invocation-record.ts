import type { RecordedAttachment } from './attachment.js';
import type { Decision } from './policy.js';
import type { JsonObject, JsonValue } from './json.js';
import type { EntityReference, ToolEffect } from './tool.js';
import type { SubRunRecord } from './sub-run.js';
import type { ToolFailure } from './tool-error.js';

/**
 * What became of a tool call. It holds the ui projection of arguments and result, so that returning one from a controller leaks nothing; the
 * model's projection is in the transcript.
 */
export interface ToolInvocationRecord {
  readonly toolCallId: string;
  /** The rendered id the model used. */
  readonly id: string;
  /** Absent when no tool of that id was in the toolset. */
  readonly declaredId?: string;
  readonly entity?: EntityReference;
  readonly effect?: ToolEffect;
  readonly step: number;
  /** Position among the calls of its step, from 0. */
  readonly index: number;
  /** Absent when the arguments could not be parsed. */
  readonly args?: JsonObject;
  /** `waiting`: for a person's yes; the call was not made. */
  readonly status: 'succeeded' | 'failed' | 'denied' | 'waiting';
  readonly result?: JsonValue;
  /** Set where the call asked for its effect, which happens later. */
  readonly directiveId?: string;
  /** Images and files of the result, which the model is shown too. */
  readonly attachments?: readonly RecordedAttachment[];
  readonly error?: ToolFailure;
  readonly decision?: Decision;
  /** Which attempt this became of, from 1; there are several under `onToolError: 'retry'` only. */
  readonly attempt: number;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly durationMs: number;
  /** Bytes of the model's projection before it was cut to its budget. */
  readonly resultBytes?: number;
  readonly truncated?: boolean;
  /** Set where the call was a run of its own. */
  readonly subRun?: SubRunRecord;
}
