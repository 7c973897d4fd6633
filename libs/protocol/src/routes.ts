import type {
  ApprovalRequest,
  ClientCallRequest,
  Decision,
  Endorsable,
  PendingDecision,
  QuestionRequest,
  RehearsalRequest,
} from './decision.js';
import type { Finding } from './errors.js';
import type { JsonObject, JsonValue } from './json.js';
import type { FinishReason, ShownCall, ToolInvocationRecord, WaitingFor } from './loop-result.js';
import type { ToolEffect, ToolPresentation, ToolSpec } from './tool-definition.js';

/** A question to the application's loop. */
export interface Ask {
  readonly message: string;
  /**
   * Continues a conversation of the same actor, or begins one: 1 to 64 letters, digits, `-` or `_`.
   */
  readonly conversationId?: string;
  /**
   * The run changes nothing: it ends with the list of what it would change, which is performed once
   * people have approved it. @default false
   */
  readonly rehearse?: boolean;
  /**
   * While another run of the conversation is under way: `queue` for its own run behind that one,
   * `addInput` to say it to that one. @default 'queue'
   */
  readonly whenBusy?: 'queue' | 'addInput';
  /**
   * The client's own id of the message, under which `cut` finds it when the user changes the words.
   */
  readonly messageId?: string;
  /**
   * Takes an answer back, with what follows it: the conversation ends before the first place that
   * is found, and this message takes its place.
   */
  readonly cut?: Cut;
}

/** The place at which a conversation is cut. */
export interface Cut {
  /**
   * Ids of runs, or the client's own of messages of the user: the first one that is found is where
   * the conversation is cut.
   */
  readonly at: readonly string[];
  /**
   * The ids of runs whose answers stay, the latest last: if no place is found, the conversation
   * ends behind the latest of them that is found.
   */
  readonly after?: readonly string[];
}

/** A run as the routes show it. */
export interface Run {
  readonly runId: string;
  readonly status: 'queued' | 'running' | 'waiting' | 'ended';
  /** Set where any process continues it, and its events are kept. */
  readonly durable: boolean;
  /** Absent for a run that has not ended and does not wait. */
  readonly finishReason?: FinishReason;
  readonly waitingFor?: WaitingFor;
  /** The sequence of its last event that was kept; 0 for none. */
  readonly lastSequence: number;
  /** The run from which it was forked, and the last step that both share. */
  readonly forkOf?: { readonly runId: string; readonly step: number };
  /** The id of its actor, in a list of the runs of a tenant. */
  readonly actorId?: string;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A selection of runs. */
export interface RunSelection {
  readonly status?: Run['status'];
  /** Another actor of the tenant, for an operator who may see its runs. @default one's own */
  readonly actorId?: string;
  /** Everyone of the tenant, for an operator who may see runs. @default false */
  readonly ofTenant?: boolean;
  readonly limit?: number;
  /** The id of the last run of the previous page. */
  readonly after?: string;
}

/** The answer to something that a run had asked. */
export interface GivenAnswer {
  readonly decision: PendingDecision;
  readonly reason?: string;
  /** The id of the person who answered. */
  readonly decidedBy: string;
  /** ISO 8601, UTC. */
  readonly decidedAt: string;
  /** The things that the person trusts for the rest of the run. */
  readonly endorse?: Pick<Endorsable, 'arguments' | 'sources'>;
}

/** A call that waits for a yes or no, with the answer once there is one. */
export interface Approval extends ApprovalRequest {
  readonly answer?: GivenAnswer;
}

/** The changes that a person makes to a call before saying yes to it. */
export interface Amendment {
  /** The arguments that replace the model's: all of them. */
  readonly args?: JsonObject;
  /** Covers further calls of the same tool under the same rule in the same run. */
  readonly remember?: boolean;
  /** Trusts these for the rest of the run, of those that the request names. */
  readonly endorse?: GivenAnswer['endorse'];
}

/** The part of a decision about a call that is about more than the call. */
export interface DecisionReach {
  /**
   * The other calls of its group that the same decision is about, by the ids of their approvals.
   * Not beside changes of the call.
   */
  readonly also?: readonly string[];
  /** An argument whose value an operator trusts in all further runs of the tenant. */
  readonly always?: { readonly argument: string; readonly reason: string };
}

/** Something that was answered, with the answer. */
export interface AnsweredRequest {
  readonly id: string;
  readonly kind: WaitingFor;
  readonly answer?: GivenAnswer;
}

/** A tool that the actor's model may call from the first step. */
export interface ListedTool extends Pick<
  ToolSpec,
  'id' | 'description' | 'effect' | 'inputSchema'
> {
  readonly presentation?: ToolPresentation;
}

/** A call that was made by hand. */
export interface MadeCall {
  readonly runId: string;
  readonly record: ToolInvocationRecord;
  /** The result as people may see it. Absent for a call that did not succeed. */
  readonly ui?: JsonValue;
  /** The ids of the tools that the result brought. */
  readonly injectedTools: readonly string[];
  /** Set where the call waits for a person: its run is resumed once that is answered. */
  readonly waiting?: { readonly runId: string; readonly for: WaitingFor };
}

/** The undoing of a run, as far as it came: the calls that changed something, the latest first. */
export interface Undoing {
  readonly runId: string;
  readonly calls: readonly {
    readonly toolCallId: string;
    readonly declaredId: string;
    readonly directiveId?: string;
    readonly status:
      'undone' | 'no_effect' | 'under_way' | 'failed' | 'not_possible' | 'not_reached';
    readonly reason?: string;
  }[];
}

/** A conversation in a list. */
export interface ConversationSummary {
  readonly conversationId: string;
  readonly messages: number;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A message of a conversation. */
export interface ConversationEntry {
  /** The position among the stored messages, from 0. */
  readonly position: number;
  readonly role: 'user' | 'assistant' | 'tool';
  /** Empty for the outcome of a call. */
  readonly text: string;
  /** The client's own id of a message of the user, if it gave one. */
  readonly messageId?: string;
  /** The call whose outcome it is, as people see it. */
  readonly call?: ShownCall;
}

/** A page of a conversation, as people may see it. */
export interface ConversationPage {
  readonly conversationId: string;
  readonly entries: readonly ConversationEntry[];
  /** The number of the first message of the next page. Absent on the last one. */
  readonly next?: number;
}

/** The answer of a process that lives. */
export interface Health {
  readonly status: 'ok';
}

/**
 * The answer of a process that a load balancer asks whether to send it requests, with its parts by
 * name and state.
 */
export interface ReadyAnswer {
  readonly status: 'ready' | 'leaving' | 'unavailable';
  readonly [check: string]: string;
}

/** Something that waits for people or for a client, as those who may see it are shown it. */
export type WaitingRequest = {
  readonly id: string;
  /** The id of the actor whose run asks. */
  readonly requestedBy?: string;
  /** Absent or false where the person may only see it. */
  readonly mayAnswer?: boolean;
  /**
   * The roles of which those who answer must have one by now. Absent where no role is asked for.
   */
  readonly roles?: readonly string[];
  /** ISO 8601, UTC. */
  readonly createdAt?: string;
} & (
  | { readonly kind: 'approval'; readonly request: ApprovalRequest }
  | { readonly kind: 'question'; readonly request: QuestionRequest }
  | { readonly kind: 'client'; readonly request: ClientCallRequest }
  | { readonly kind: 'rehearsal'; readonly request: RehearsalRequest }
);

/** The reasons why a run of an actor is offered a tool, or is not. */
export interface ExplainedTool {
  readonly declaredId: string;
  readonly isListed: boolean;
  /** `asks` if a call waits for a person's approval. */
  readonly isCallable: boolean | 'asks';
  /** In the order in which they are asked. */
  readonly reasons: readonly {
    readonly by: string;
    readonly holds: boolean;
    readonly reason: string;
    readonly decision?: Decision;
  }[];
}

/** The entries of the audit about one call. */
export interface ExplainedCall {
  readonly runId: string;
  readonly toolCallId: string;
  readonly declaredId?: string;
  readonly events: readonly {
    /** ISO 8601, UTC. */
    readonly at: string;
    readonly kind: string;
    readonly decision?: Decision;
    readonly reason?: string;
    readonly decidedBy?: string;
    readonly status?: string;
    readonly code?: string;
  }[];
}

/** The subject of an explanation: a tool for an actor, or one call. */
export interface ExplanationSubject {
  /** An actor of the operator's own tenant. @default the operator */
  readonly actorId?: string;
  readonly runId?: string;
  readonly toolCallId?: string;
}

/** The target of a kill switch; without a tool and a source it is everything of the tenant. */
export interface StopOrder {
  /** A declared id. */
  readonly tool?: string;
  readonly source?: string;
  /** In all tenants, for an operator of all of them. @default the operator's own tenant */
  readonly everywhere?: boolean;
}

/** A kill switch that is on. */
export interface Stop extends Pick<StopOrder, 'tool' | 'source'> {
  readonly stopId: string;
  /** Absent where it is on in all tenants. */
  readonly tenant?: string;
  /** The id of the person who stopped it. */
  readonly author: string;
  readonly reason: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** A version of the policies of a tenant, as a person put it. */
export interface PutPolicies {
  readonly number: number;
  /** Absent for those that the application was started with. */
  readonly policies?: readonly JsonObject[];
  readonly author: string;
  readonly reason: string;
  readonly rollbackOf?: number;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/**
 * The reason for a change of policies, and the version that it follows: of two that follow the same
 * one, the second is refused.
 */
export interface PolicyChangeOrder {
  /** 0 for none. */
  readonly expected: number;
  readonly reason: string;
}

/** A difference between two versions of policies. */
export interface ChangedPolicy {
  /** The JSON pointer of the field. */
  readonly at: string;
  /** Absent where it came. */
  readonly before?: JsonValue;
  /** Absent where it went. */
  readonly after?: JsonValue;
}

/** The decisions of stored runs that other policies would have made otherwise. */
export interface ReplayedPolicies {
  readonly version?: number;
  readonly runs: readonly {
    readonly runId: string;
    /** The reason for which nothing of it was decided again. */
    readonly problem?: string;
    /** The number of calls that were decided again. */
    readonly decided: number;
    readonly changed: readonly {
      readonly toolCallId: string;
      readonly step: number;
      readonly declaredId: string;
      readonly before: Decision;
      readonly after: Decision;
    }[];
    readonly skipped: readonly { readonly toolCallId: string; readonly why: string }[];
  }[];
}

/** A source of tools. */
export interface ListedSource {
  readonly source: string;
  readonly prefix?: string;
  readonly trusted: boolean;
  /**
   * `starting`: it has not answered yet. `unreachable`: it did not answer when it was last asked;
   * the tools of its last answer stay.
   */
  readonly state: 'starting' | 'ready' | 'unreachable';
  /** ISO 8601, UTC. */
  readonly since: string;
  readonly tools: readonly SourcedTool[];
  /**
   * The tools that are kept out, with the hash of the declaration that a policy would pin to let
   * one in.
   */
  readonly quarantined: readonly {
    readonly id: string;
    readonly reason: string;
    readonly schemaHash?: string;
  }[];
  /** The number of tools beyond the limits, which were not looked at. */
  readonly leftOut: number;
  readonly lastError?: string;
}

/** A tool of a source, as it is offered now. */
export interface SourcedTool {
  readonly declaredId: string;
  readonly effect: ToolEffect;
  /** The SHA-256 of its declaration. */
  readonly schemaHash: string;
  /** Set where the application pins that declaration. */
  readonly pinned?: true;
}

/** The sources of tools, and what is not well with the tools of the application by now. */
export interface SourceReport {
  readonly sources: readonly ListedSource[];
  readonly findings: readonly Finding[];
}

/** A tool as another person would be offered it. */
export interface ViewedTool extends ExplainedTool {
  readonly description: string;
  readonly effect: ToolEffect;
  readonly source: string;
  readonly presentation?: ToolPresentation;
}

/**
 * The things that an operator sees who looks as another person: lists and reasons, and no way to
 * act.
 */
export interface ViewedActor {
  readonly actor: {
    readonly id: string;
    readonly name?: string;
    readonly roles: readonly string[];
  };
  /** The actions of operators that the person may take. */
  readonly may: readonly string[];
  readonly tools: readonly ViewedTool[];
  /** The latest runs of the person. */
  readonly runs: readonly Run[];
  /** The requests that the person may see, with whether they may answer. */
  readonly waiting: readonly WaitingRequest[];
}

/** A dimension of a report of usage. */
export type UsageGroup = 'tenant' | 'day' | 'actor' | 'tool' | 'model';

/** A selection of what was used. */
export interface UsageSelection {
  /** The first and the last day in UTC, such as `2026-11-01`. @default the last 30 days */
  readonly from?: string;
  readonly to?: string;
  /** @default everyone of the tenant, which only operators may see */
  readonly actor?: string;
  /** Set for all tenants, which only operators of all of them may see. @default the reader's own */
  readonly everywhere?: boolean;
  /** @default one row, the sum of all */
  readonly groupBy?: readonly UsageGroup[];
  /** Rows of the answer, at most 1,000. @default 100 */
  readonly limit?: number;
}

/**
 * A row of a report of usage: the dimensions that it is grouped by, those without a value left out,
 * and the sums.
 */
export interface UsageSums extends Partial<Readonly<Record<UsageGroup, string>>> {
  readonly calls: number;
  readonly answers: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The cost in USD as far as it is known. */
  readonly usd: number;
  /** Answers whose cost is not known. */
  readonly unpricedAnswers: number;
}
