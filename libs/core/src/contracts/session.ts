import type { JsonObject, JsonValue, ToolInvocationRecord, ToolMessage, ToolSpec } from '@toolloop/protocol';
import { CHECKED_BY_USE, defineOptions } from '../findings/options.js';
import { type LoopRequest, REQUEST } from './loop-request.js';
import type { RegisteredActor } from './tool-call.js';

/** One call of one tool, made without a model. Its options are those of a run, as far as they are about calls. */
export interface CallRequest<Actor = RegisteredActor> extends Pick<
  LoopRequest<unknown, Actor>,
  | 'actor'
  | 'tenant'
  | 'context'
  | 'tools'
  | 'exclude'
  | 'policy'
  | 'limits'
  | 'execution'
  | 'injection'
  | 'surface'
  | 'onToolError'
  | 'approvals'
  | 'hooks'
  | 'requestId'
  | 'signal'
> {
  /** The id of the tool, as `ToolLoopService.list` has it. */
  readonly tool: string;
  /** The arguments, which may come from anywhere: they are checked like those of a model. @default {} */
  readonly args?: JsonObject;
}

/** The outcome of one call. What goes out as JSON is what a UI may show. */
export interface CallResult {
  /** The run of the call. */
  readonly runId: string;
  /** In the ui projection. */
  readonly record: ToolInvocationRecord;
  /** The result as a UI may show it; undefined for a call that did not succeed. */
  readonly ui: JsonValue | undefined;
  /** The tools that the result brought. */
  readonly injectedTools: readonly ToolSpec[];
  /** Set where the call was not made yet: `RunService.resume` continues its run once it was decided on. */
  readonly waiting?: WaitingCall;
  /** The model's projection of the result or the error; undefined for a call that waits. Not enumerable. */
  readonly content: ToolMessage['content'] | undefined;
  toJSON(): JsonValue;
}

/** The run of a call that waits. */
export interface WaitingCall {
  readonly runId: string;
  readonly for: 'approval';
}

const { rules } = REQUEST;

/** The options of a call. The tool and its arguments may be a client's words: the pipeline checks them. */
export const CALL = defineOptions<CallRequest>({
  actor: rules.actor,
  tenant: rules.tenant,
  context: rules.context,
  tools: rules.tools,
  exclude: rules.exclude,
  policy: rules.policy,
  limits: rules.limits,
  execution: rules.execution,
  injection: rules.injection,
  surface: rules.surface,
  onToolError: rules.onToolError,
  approvals: rules.approvals,
  hooks: rules.hooks,
  requestId: rules.requestId,
  signal: rules.signal,
  tool: CHECKED_BY_USE,
  args: CHECKED_BY_USE,
});
