import type { JsonObject, JsonValue } from './json.js';

/** What a call would do, said for the person who approves it. */
export interface ToolPreview {
  /** One plain sentence, e.g. `Refunds 42.00 EUR to Ann Weber`. */
  readonly sentence: string;
  /** What would be different afterwards. */
  readonly changes?: readonly PreviewChange[];
}

/** One value before and after. `before` is absent for what is new, `after` for what goes. */
export interface PreviewChange {
  readonly field: string;
  readonly before?: JsonValue;
  readonly after?: JsonValue;
}

/** A call that waits for a person's yes or no, as a client may see it. The call itself is held by the server. */
export interface ApprovalRequest {
  readonly approvalId: string;
  /** The root run's: the one that waits and is resumed. */
  readonly runId: string;
  /** Run ids from the root to the sub-run that makes the call. Absent where the root makes it. */
  readonly path?: readonly string[];
  /** Of the run that makes the call, from 1. */
  readonly step: number;
  readonly toolCallId: string;
  /** The rendered id the model used. */
  readonly tool: string;
  readonly declaredId: string;
  readonly instanceId?: string;
  /** The ui projection. */
  readonly args: JsonObject;
  /** Why a yes is needed. */
  readonly reason: string;
  readonly preview?: ToolPreview;
  /** ISO 8601, UTC. */
  readonly expiresAt: string;
  /** Whether the approver may change the arguments. */
  readonly mayEdit: boolean;
  /** Whether a yes may hold for the further calls of this tool in this run. */
  readonly mayRemember: boolean;
}

/** All a client may send. Anything else about the call is ignored. */
export interface ApprovalDecision {
  readonly approvalId: string;
  readonly decision: 'approve' | 'deny';
  /** Read by the model. */
  readonly reason?: string;
}

/**
 * `pending`: it is performed once it is due. `performing`: somebody is at it. `unknown_outcome`: it was begun, and a person has to say whether its effect took
 * place. `dead`: it failed for good, and its effect did not take place. `compensated`: it was performed and undone.
 */
export type DirectiveStatus = 'pending' | 'performing' | 'succeeded' | 'unknown_outcome' | 'dead' | 'cancelled' | 'compensated';

export const DIRECTIVE_STATUSES: readonly DirectiveStatus[] = [
  'pending',
  'performing',
  'succeeded',
  'unknown_outcome',
  'dead',
  'cancelled',
  'compensated',
];

/** A directive as a run's events tell it. */
export interface DirectiveRequest {
  readonly directiveId: string;
  readonly toolCallId: string;
  readonly type: string;
  readonly subject: string;
  readonly status: DirectiveStatus;
  readonly preview?: ToolPreview;
}

/** What happened to a directive. */
export type DirectiveEventType =
  'requested' | 'started' | 'retried' | 'succeeded' | 'unknown_outcome' | 'dead' | 'redriven' | 'cancelled' | 'compensated';

/** Who may answer an approval, and how. */
export interface ApprovalTerms {
  /** Whoever has one of these may answer. @default the actor of the run, or with `notRequester` anybody else of the tenant */
  readonly roles?: readonly string[];
  /** Bars the actor of the run from answering. @default false */
  readonly notRequester?: boolean;
  /** Whether the approver may change the arguments. @default false */
  readonly mayEdit?: boolean;
  /** Whether an approval may cover further calls under the same rule in the same run. @default false */
  readonly mayRemember?: boolean;
  /** Milliseconds until it can no longer be answered. @default 86,400,000, a day */
  readonly expiresAfterMs?: number;
}

/** What one call may use. Of all budgets that match, the strictest applies; limits of the run and the tool are never widened. */
export interface CallBudget {
  /** @default every tool */
  readonly tools?: readonly string[];
  readonly maxRuntimeMs?: number;
  readonly maxResultBytes?: number;
  readonly maxArgsBytes?: number;
}

/** The answer for one tool or call, with the rule that gave it. */
export interface Decision {
  readonly kind: 'allow' | 'deny' | 'require_approval';
  /** Which rule decided, e.g. `allow: crm__*`. */
  readonly rule: string;
  readonly reason: string;
  readonly policyVersion: string;
  /** Set where a budget is used up. */
  readonly isOverBudget?: true;
  /** What the call may use, where the policy says so. */
  readonly callBudget?: Omit<CallBudget, 'tools'>;
  /** Set if approval is required: the approver must meet each of these terms. */
  readonly approval?: readonly ApprovalTerms[];
  /** What policies in shadow would have said. */
  readonly shadow?: readonly Pick<Decision, 'kind' | 'rule' | 'policyVersion'>[];
}
