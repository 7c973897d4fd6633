import type { JSONSchema7 } from 'json-schema';
import type { JsonObject, JsonValue } from './json.js';
import type { ToolEffect, ToolPresentation } from './tool-definition.js';

/** The answer of the policy for one tool or call, with the rule that gave it. */
export interface Decision {
  readonly kind: 'allow' | 'deny' | 'require_approval';
  /** The rule that decided, e.g. `allow: crm__*`. */
  readonly rule: string;
  readonly reason: string;
  readonly policyVersion: string;
  /** Set where a budget is used up. */
  readonly isOverBudget?: true;
  /** Set where an operator has stopped it: what waits for it is held until it is released. */
  readonly isStopped?: true;
  /** The budget of the call, where the policy sets one. */
  readonly callBudget?: Omit<CallBudget, 'tools'>;
  /** The terms that the approver must meet, all of them. Set if an approval is required. */
  readonly approval?: readonly ApprovalTerms[];
  /** The things that the approver may trust for the rest of the run. */
  readonly endorsable?: Endorsable;
  /**
   * The latest approval in which a person trusted a value or a source for the rest of the run,
   * where the call would need one of its own without that.
   */
  readonly endorsedBy?: string;
  /** The decisions of policies that run in shadow: they are recorded, not enforced. */
  readonly shadow?: readonly Pick<Decision, 'kind' | 'rule' | 'policyVersion'>[];
}

/** The effect a call would have, described for the person who approves it. */
export interface ToolPreview {
  /** One plain sentence, e.g. `Refunds 42.00 EUR to Ann Weber`. */
  readonly sentence: string;
  /** The values that the call would change. */
  readonly changes?: readonly PreviewChange[];
}

/**
 * One value before and after the call. `before` is absent where the value is new, `after` where it
 * is removed.
 */
export interface PreviewChange {
  readonly field: string;
  readonly before?: JsonValue;
  readonly after?: JsonValue;
}

/**
 * A call that waits for what a person or a client answers, as they may see it. The call itself is
 * held by the server.
 */
export interface WaitingCall {
  /** The id of the root run, which waits and is resumed. */
  readonly runId: string;
  /**
   * The run ids from the root to the sub-run that makes the call. Absent where the root makes it.
   */
  readonly path?: readonly string[];
  /** The step of the run that makes the call, from 1. */
  readonly step: number;
  readonly toolCallId: string;
  /** The rendered id the model used. */
  readonly tool: string;
  readonly declaredId: string;
  readonly instanceId?: string;
  /**
   * The presentation that the tool declares. Its `confirm` stands beside the facts of this very
   * call, never in their place.
   */
  readonly presentation?: ToolPresentation;
  /** The time after which it can no longer be answered: ISO 8601, UTC. */
  readonly expiresAt: string;
}

/** A call that waits for a person's yes or no. */
export interface ApprovalRequest extends WaitingCall {
  readonly approvalId: string;
  /** The ui projection of the arguments. */
  readonly args: JsonObject;
  /** The reason why the policy requires an approval. */
  readonly reason: string;
  readonly preview?: ToolPreview;
  /**
   * The differences of the tool from the one about which a person was asked before, such as
   * `effect` or `labels.egress`: the answer to that counts no more. Set if it was asked for before
   * and the tool has changed since.
   */
  readonly changed?: readonly PreviewChange[];
  /** `true` if the approver may change the arguments. */
  readonly mayEdit: boolean;
  /** `true` if the approval may cover further calls of this tool in this run. */
  readonly mayRemember: boolean;
  /**
   * The things that the approver may trust for the rest of the run, beside the yes to this call.
   * Absent where the policy lets no one trust anything.
   */
  readonly mayEndorse?: Endorsable;
  /**
   * Set where the run had read what may have been written by others when it asked: they may have
   * asked for the call.
   */
  readonly isTainted?: true;
  /**
   * The same for the calls of one kind that a step makes, of which one decision can be taken.
   * Absent in requests of earlier releases.
   */
  readonly group?: string;
}

/**
 * Values and sources from outside that the approver of a call may trust, by a rule of the policy.
 */
export interface Endorsable {
  /** Arguments whose values may be trusted in further calls of the tool. */
  readonly arguments?: readonly string[];
  /** Tools whose results may be trusted, or places in results such as `mail__read#/from`. */
  readonly sources?: readonly string[];
  /**
   * Those of the arguments whose values an operator may trust in all further runs of the tenant.
   */
  readonly always?: readonly string[];
}

/**
 * Calls of one kind that a step makes and that wait for a person, of which one decision can be
 * taken.
 */
export interface ApprovalGroup extends Pick<
  ApprovalRequest,
  'runId' | 'path' | 'step' | 'tool' | 'declaredId' | 'reason'
> {
  readonly group: string;
  /** Those that are open, the oldest first. Each is decided, used and recorded by itself. */
  readonly calls: readonly ApprovalRequest[];
}

/** A call that the client is to make, and whose result it gives back. */
export interface ClientCallRequest extends WaitingCall {
  readonly pendingId: string;
  readonly effect: ToolEffect;
  /** The ui projection of the arguments. */
  readonly args: JsonObject;
  /** The schema that the result must fit. @default any JSON */
  readonly resultSchema?: JSONSchema7;
}

/**
 * A call of a rehearsal that changes something. `rehearsed`: it was made in a transaction that was
 * rolled back. `previewed`: it was not made, and what it would return is not known.
 */
export interface RehearsedCall {
  /** The id of the call in the rehearsal; it is performed under another. */
  readonly toolCallId: string;
  /** The step of the rehearsal that made it, from 1. */
  readonly step: number;
  /** The rendered id of the tool. */
  readonly tool: string;
  readonly declaredId: string;
  readonly instanceId?: string;
  readonly effect: ToolEffect;
  readonly as: 'rehearsed' | 'previewed';
  /** The ui projection of the arguments. */
  readonly args: JsonObject;
  /** The reason why the policy requires an approval of it; absent where it requires none. */
  readonly reason?: string;
  /** The tool's own words for what it would do, with the rows before and after. */
  readonly preview?: ToolPreview;
  /** The ui projection of its result in the rehearsal. */
  readonly result?: JsonValue;
}

/**
 * The changes that a rehearsal lists, and that are performed once people have approved all of them.
 */
export interface RehearsalRequest extends Pick<WaitingCall, 'runId' | 'step' | 'expiresAt'> {
  readonly rehearsalId: string;
  /** In the order in which they are performed. */
  readonly calls: readonly RehearsedCall[];
}

/** A question that a call asks a person, and that its run waits for. */
export interface QuestionRequest extends WaitingCall {
  readonly questionId: string;
  /** The name of the question in its call. */
  readonly key: string;
  readonly question: string;
  /**
   * The form of the answer: a text, a number, a choice or several, a date, a yes or no, or an
   * object of such fields.
   */
  readonly schema: JSONSchema7;
  /** The author of the words of the question. */
  readonly askedBy: 'tool' | 'model';
  /**
   * `true` if the run had read what may have been written by others when it asked: then the words
   * may be theirs.
   */
  readonly isTainted: boolean;
}

/** The only fields that a client may send for a question: the answer, or that there is none. */
export type QuestionAnswer = { readonly questionId: string } & (
  | { readonly answer: JsonValue }
  | { readonly decision: 'deny' | 'withdraw'; readonly reason?: string }
);

/**
 * The only fields that a client may send to answer an approval. Anything else about the call is
 * ignored.
 */
export interface ApprovalDecision {
  readonly approvalId: string;
  /** `withdraw` takes the call itself back, which only the actor of the run may. */
  readonly decision: 'approve' | 'deny' | 'withdraw';
  /** The reason as the model reads it. */
  readonly reason?: string;
}

/** The only fields that a client may send for a rehearsal: a yes or a no to all of it. */
export interface RehearsalDecision extends Pick<ApprovalDecision, 'decision' | 'reason'> {
  readonly rehearsalId: string;
}

/**
 * The only fields that a client may send for a call that it was to make: its result, the reason why
 * it made none, or that the actor withdraws it.
 */
export type ClientCallAnswer = {
  readonly toolCallId: string;
  /** Tells two calls apart whose ids two sub-runs of the run use at once. */
  readonly pendingId?: string;
} & (
  | { readonly result: JsonValue }
  | { readonly error: string }
  | { readonly decision: 'withdraw'; readonly reason?: string }
);

/** An answer to what a run has asked. */
export type PendingReply = ApprovalDecision | ClientCallAnswer | QuestionAnswer | RehearsalDecision;

/** The outcome of a request of a run. */
export type PendingDecision = 'approve' | 'deny' | 'answer' | 'withdraw';

/**
 * The state of a directive. `pending`: it is performed once it is due. `performing`: a runner has
 * claimed it. `unknown_outcome`: it was started, and a person has to say whether its effect took
 * place. `dead`: it failed for good, and its effect did not take place. `compensated`: it was
 * performed and undone.
 */
export type DirectiveStatus =
  'pending' | 'performing' | 'succeeded' | 'unknown_outcome' | 'dead' | 'cancelled' | 'compensated';

export const DIRECTIVE_STATUSES: readonly DirectiveStatus[] = [
  'pending',
  'performing',
  'succeeded',
  'unknown_outcome',
  'dead',
  'cancelled',
  'compensated',
];

/** A directive as it appears in the events of a run. */
export interface DirectiveRequest {
  readonly directiveId: string;
  readonly toolCallId: string;
  readonly type: string;
  readonly subject: string;
  readonly status: DirectiveStatus;
  readonly preview?: ToolPreview;
}

/** A change in the state of a directive. */
export type DirectiveEventType =
  | 'requested'
  | 'started'
  | 'retried'
  | 'succeeded'
  | 'unknown_outcome'
  | 'dead'
  | 'redriven'
  | 'cancelled'
  | 'compensated';

/** The people who may answer an approval, and how they may answer it. */
export interface ApprovalTerms {
  /**
   * The roles of which an approver must have one. @default the actor of the run, or with
   * `notRequester` anyone else of the tenant
   */
  readonly roles?: readonly string[];
  /** Bars the actor of the run from answering. @default false */
  readonly notRequester?: boolean;
  /** Lets the approver change the arguments. @default false */
  readonly mayEdit?: boolean;
  /** Lets an approval cover further calls under the same rule in the same run. @default false */
  readonly mayRemember?: boolean;
  /**
   * The milliseconds after which the approval can no longer be answered. @default 86,400,000, a day
   */
  readonly expiresAfterMs?: number;
  /**
   * The milliseconds after which people are first reminded of what waits; then after twice as many
   * more, again and again until it expires. @default 14,400,000, four hours
   */
  readonly remindAfterMs?: number;
  /** Further people who may answer once it has waited for so long. @default none */
  readonly escalation?: readonly ApprovalEscalation[];
}

/** People who may answer what the others have left unanswered. */
export interface ApprovalEscalation {
  readonly afterMs: number;
  /** The roles of which they must have one. */
  readonly roles: readonly string[];
}

/**
 * The time and size that one call may use. Of all budgets that match, the strictest applies; a
 * budget never widens a limit of the run or the tool.
 */
export interface CallBudget {
  /** @default every tool */
  readonly tools?: readonly string[];
  readonly maxRuntimeMs?: number;
  readonly maxResultBytes?: number;
  readonly maxArgsBytes?: number;
}

/** The models and the policies with which a run can be rehearsed, by their names. */
export interface RehearsalChoices {
  readonly models: readonly string[];
  readonly policies: readonly string[];
}

/** A call as it was decided when its run was recorded, beside the decision of a candidate. */
export interface ComparedCall {
  readonly toolCallId: string;
  readonly step: number;
  readonly declaredId: string;
  /** Absent for a call that only the rehearsal makes. */
  readonly recorded?: Decision;
  /** Absent for a call that the rehearsal does not make, or that cannot be decided again. */
  readonly candidate?: Decision;
  /** True where the two come to something else: whether the call is made, or who is asked. */
  readonly flipped: boolean;
  /** The reason why there is no decision of the candidate. */
  readonly why?: 'not_made' | 'tool_gone' | 'no_arguments' | 'sub_run';
}
