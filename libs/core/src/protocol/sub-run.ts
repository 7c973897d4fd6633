import type { Type } from '@nestjs/common';
import type { LoopProfile } from './loop-profile.js';
import type { FinishReason } from './loop-result.js';
import type { ToolEffect } from './tool.js';
import type { ToolInvocationRecord } from './tool-invocation-record.js';
import type { Usage } from './usage.js';

/** What a sub-run says of itself. Whatever it says narrows what the run around it may do. */
export interface SubRunProfile extends Pick<
  LoopProfile,
  | 'model'
  | 'instructions'
  | 'exclude'
  | 'policy'
  | 'limits'
  | 'history'
  | 'prepareStep'
  | 'stopWhen'
  | 'toolChoice'
  | 'keepToolChoice'
  | 'modelOptions'
> {
  /** What it may use of what the run around it may; tools that entities bring are named as well. */
  readonly tools: NonNullable<LoopProfile['tools']>;
  /** A class the answer must be; the result holds it as `output`. */
  readonly output?: Type;
  /** Of the summary in the result. @default 4,096 */
  readonly summaryBytes?: number;
}

/** A tool whose call is a run. */
export interface SubRun extends SubRunProfile {
  /** What is asked, made of the tool's input. */
  prompt(this: void, input: unknown): string;
  /** The strongest effect that its tools may have, where it says one. */
  readonly effect?: ToolEffect;
}

/** What the call of a sub-run tool was, beside its result. */
export interface SubRunRecord {
  readonly runId: string;
  readonly finishReason: FinishReason;
  readonly steps: number;
  readonly usage: Usage;
  /** In the ui projection, like every record. Absent in events: each was told by one of its own. */
  readonly toolCalls?: readonly ToolInvocationRecord[];
}
