import type {
  ApprovalDecision,
  ApprovalRequest,
  ClientCallRequest,
  Decision,
  DirectiveEventType,
  DirectiveRequest,
  PendingDecision,
  QuestionRequest,
  RehearsalRequest,
} from './decision.js';
import type { JsonObject, JsonValue } from './json.js';
import type { ModelErrorCode } from './errors.js';
import type {
  ModelFinishReason,
  ModelResponseIdentity,
  ProviderToolStatus,
} from './language-model.js';
import type {
  FinishReason,
  RehearsalReport,
  RunFailure,
  ShownCall,
  ToolInvocationRecord,
  WaitingFor,
} from './loop-result.js';
import type { Citation, Usage } from './message.js';
import type { ToolEffect, ToolPresentation } from './tool-definition.js';

/** An event of a run. Encoders, sinks, journals and clients read nothing else of it. */
export type LoopEvent = LoopEventBody & EventStamp;

/** The fields that every event carries. */
export interface EventStamp {
  readonly runId: string;
  /** The number of the event within its run, from 1, without gaps. */
  readonly sequence: number;
  /** The time of the event: ISO 8601, UTC. */
  readonly timestamp: string;
}

/**
 * Writes the time of now, as the stamps of events and of the audit have it. Many come within one
 * second, whose part is written once: it is most of what writing a date costs.
 */
export function timestampOfNow(): string {
  const now = Date.now();
  const ms = now % 1000;
  if (now - ms !== second.at)
    second = { at: now - ms, text: new Date(now).toISOString().slice(0, -'000Z'.length) };
  return `${second.text}${String(ms).padStart(3, '0')}Z`;
}

/**
 * A summary of the tools of a model call, which come first in every prompt. If `unchanged` is less
 * than `tools`, the provider's prompt cache is valid up to that tool; everything after it, the
 * conversation included, is read again.
 */
export interface ToolPrefix {
  /**
   * A hash of the tools' names, descriptions and schemas in their order: 16 hex digits; empty if
   * there are no tools.
   */
  readonly hash: string;
  /** The number of tools. */
  readonly tools: number;
  /**
   * The number of tools, counted from the first, that are the same as in the run's previous model
   * call.
   */
  readonly unchanged: number;
}

export type WarningCode =
  | 'injection_cap'
  | 'injection_depth'
  | 'injection_failed'
  | 'unknown_provider'
  | 'empty_answer'
  | 'history_failed'
  | 'media_refused'
  | 'sink_failed'
  | 'conversation_busy'
  | 'client_tool_refused'
  | 'redaction_failed'
  | 'option_ignored';

/**
 * An event of a run, before it is stamped. Values are the ui projection; the model's is in the
 * transcript only.
 */
export type LoopEventBody =
  | {
      readonly type: 'run-start';
      readonly requestId: string;
      readonly conversationId?: string;
      /** Absent where the run makes one call and asks no model. */
      readonly model?: string;
      readonly tools: readonly string[];
      /** Set where the run is a rehearsal. */
      readonly isRehearsal?: true;
      /** The call that started this sub-run. Absent in a root run. */
      readonly within?: {
        readonly runId: string;
        readonly toolCallId: string;
        readonly tool: string;
      };
    }
  /**
   * The start of a step. `tools` is the number of the run's tools; `prepareStep` may show the model
   * fewer.
   */
  | { readonly type: 'step-start'; readonly step: number; readonly tools: number }
  | { readonly type: 'reasoning-delta'; readonly step: number; readonly text: string }
  | { readonly type: 'text-delta'; readonly step: number; readonly text: string }
  /**
   * The structured answer as far as the model has written it: all of it so far, of which properties
   * and list items are only added and texts only grow, within one step. It is not checked yet, and
   * not complete before `run-end` has the `output`; an answer that does not fit is asked for again,
   * in another step.
   */
  | { readonly type: 'output-delta'; readonly step: number; readonly output: JsonObject }
  /**
   * The progress of a tool that the provider runs itself. It is only shown: it is not a call of the
   * run.
   */
  | {
      readonly type: 'provider-tool';
      readonly step: number;
      readonly id: string;
      readonly name: string;
      readonly status: ProviderToolStatus;
    }
  /**
   * The source of a passage in the step's text. Treat it as untrusted when you show it: it comes
   * from outside.
   */
  | { readonly type: 'citation'; readonly step: number; readonly citation: Citation }
  /** A piece of a call's arguments. Sent only if the tool's input hides nothing. */
  | {
      readonly type: 'tool-call-delta';
      readonly step: number;
      readonly toolCallId: string;
      readonly tool: string;
      readonly argumentsDelta: string;
    }
  /**
   * A call of an answer that gives way to this run's: what it changed stands, and is not changed a
   * second time.
   */
  | { readonly type: 'call-stands'; readonly step: number; readonly call: ShownCall }
  /**
   * An assembled call. `args` and `presentation` are absent when the arguments could not be parsed
   * or no such tool exists.
   */
  | {
      readonly type: 'tool-call';
      readonly step: number;
      readonly toolCallId: string;
      readonly tool: string;
      readonly args?: JsonObject;
      /** The presentation of the call, its progress and its result, if the tool declares one. */
      readonly presentation?: ToolPresentation;
    }
  | {
      readonly type: 'tool-start';
      readonly step: number;
      readonly toolCallId: string;
      readonly tool: string;
      readonly effect: ToolEffect;
      readonly decision: Decision;
    }
  | {
      readonly type: 'tool-progress';
      readonly step: number;
      readonly toolCallId: string;
      readonly tool: string;
      readonly value: JsonValue;
    }
  /**
   * `isOfOthers` is set where the result holds what may have been written by others: the run counts
   * as tainted from then on.
   */
  | {
      readonly type: 'tool-result';
      readonly step: number;
      readonly record: ToolInvocationRecord;
      readonly isOfOthers?: true;
    }
  | {
      readonly type: 'tools-injected';
      readonly step: number;
      /** The class of the entity, or the name of the strategy. */
      readonly provider: string;
      readonly instanceId?: string;
      readonly tools: readonly string[];
    }
  | {
      readonly type: 'tools-removed';
      readonly step: number;
      readonly tools: readonly string[];
      readonly reason: string;
    }
  /**
   * A source of tools has changed those of the run: `removed` are gone, `added` come behind all
   * others. Only tools that the run may have are named.
   */
  | {
      readonly type: 'source-changed';
      readonly step: number;
      readonly source: string;
      readonly added: readonly string[];
      readonly removed: readonly string[];
    }
  | { readonly type: 'approval-request'; readonly step: number; readonly approval: ApprovalRequest }
  | {
      readonly type: 'approval-decision';
      readonly step: number;
      readonly decision: ApprovalDecision;
      readonly decidedBy: string;
    }
  /**
   * A request of the run beside approvals: a call for the client to make, a question to a person,
   * or the approval of a rehearsal. Sent again each time the run waits for it.
   */
  | {
      readonly type: 'pending-request';
      readonly step: number;
      readonly kind: 'client';
      readonly request: ClientCallRequest;
    }
  | {
      readonly type: 'pending-request';
      readonly step: number;
      readonly kind: 'question';
      readonly request: QuestionRequest;
    }
  | {
      readonly type: 'pending-request';
      readonly step: number;
      readonly kind: 'rehearsal';
      readonly request: RehearsalRequest;
    }
  /**
   * The outcome of such a request, without the answer: the result of the call shows as much of that
   * as may be seen.
   */
  | {
      readonly type: 'pending-answer';
      readonly step: number;
      readonly kind: 'client' | 'question' | 'rehearsal';
      readonly pendingId: string;
      /** The call that asked; for a rehearsal, its own id. */
      readonly toolCallId: string;
      readonly decision: PendingDecision;
      readonly answeredBy: string;
    }
  | {
      readonly type: 'directive-request';
      readonly step: number;
      readonly directive: DirectiveRequest;
    }
  /** A change in a directive that the run requested, sent while the run is active. */
  | {
      readonly type: 'directive-update';
      readonly step: number;
      readonly event: DirectiveEventType;
      readonly directive: DirectiveRequest;
    }
  /**
   * An event of a sub-run, with that run's id and sequence; `path` holds the run ids from the outer
   * to the inner. Approvals of sub-runs are not wrapped like this: they are events of the root run.
   */
  | { readonly type: 'sub-run'; readonly path: readonly string[]; readonly event: LoopEvent }
  /**
   * The usage of one model call: the step's own, with the tools it was sent, or one that the
   * history policy made before it.
   */
  | {
      readonly type: 'usage';
      readonly step: number;
      readonly usage: Usage;
      readonly total: Usage;
      readonly tools?: ToolPrefix;
    }
  | {
      readonly type: 'warning';
      readonly step?: number;
      readonly code: WarningCode;
      readonly message: string;
    }
  /**
   * The end of a step. `model` is the model that answered, as `provider/modelId`, if it is not the
   * one that was asked; `response` has the provider's names for its answer.
   */
  | {
      readonly type: 'step-end';
      readonly step: number;
      readonly modelFinishReason: ModelFinishReason;
      readonly toolCalls: number;
      readonly model?: string;
      readonly response?: ModelResponseIdentity;
    }
  | {
      readonly type: 'run-end';
      readonly finishReason: FinishReason;
      /** As in `LoopResult`. */
      readonly waitingFor?: WaitingFor;
      /** As in `LoopResult`. */
      readonly addedTo?: string;
      readonly text: string;
      readonly output?: JsonValue;
      readonly steps: number;
      readonly usage: Usage;
      readonly error?: RunFailure;
      readonly finishDetail?: string;
      /** As in `LoopResult`. */
      readonly unknownOutcomes?: readonly string[];
      /** As in `LoopResult`. */
      readonly rehearsal?: RehearsalReport;
      /** As in `LoopResult`. */
      readonly modelError?: ModelErrorCode;
    };

let second = { at: Number.NaN, text: '' };

/** The events of one type. */
export type LoopEventOf<Type extends LoopEvent['type']> = Extract<
  LoopEvent,
  { readonly type: Type }
>;

/**
 * Whose run an event belongs to: that of the root run, also for the events of its sub-runs. Frozen.
 */
export interface RunIdentity {
  readonly runId: string;
  readonly tenant: string;
  /** Absent for an actor without an id. */
  readonly actorId?: string;
  /** The name of the loop; absent for `ToolLoopService` itself. */
  readonly loop?: string;
}

/**
 * The port that receives every event of every run, for journals and telemetry. An application may
 * register several.
 *
 * @example
 * class ConsoleSink extends LoopEventSink {
 *   write({ type }: LoopEvent, { tenant, runId }: RunIdentity): void {
 *     console.log(tenant, runId, type);
 *   }
 * }
 */
export abstract class LoopEventSink {
  /**
   * Makes the run wait for this sink before it shows an event, and end where the sink fails. The
   * failure of any other sink is a warning. @default false
   */
  readonly critical: boolean = false;
  /**
   * The milliseconds that a critical sink has for an event, before it counts as failed. Longer than
   * all for which it waits itself. @default 10,000
   */
  readonly longestMs: number = 10_000;
  abstract write(event: LoopEvent, run: RunIdentity): void | Promise<void>;
}
