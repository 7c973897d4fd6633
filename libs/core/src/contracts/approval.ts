import type { ApprovalDecision, ApprovalRequest, ApprovalTerms, JsonObject } from '@toolloop/protocol';

/** What else an approver may say, where the policy lets them. */
export interface ApprovalAmendment {
  /** In the place of what the model sent: all arguments, not those that differ. They are checked like any. */
  readonly args?: JsonObject;
  /** Holds for further calls that the same rule asks about, of the same tool, in the same run. */
  readonly remember?: boolean;
}

/** What a person decided. */
export interface ApprovalAnswer extends ApprovalAmendment {
  readonly decision: ApprovalDecision['decision'];
  readonly reason?: string;
  readonly decidedBy: string;
  /** ISO 8601, UTC. */
  readonly decidedAt: string;
  /** Whether it was nobody's decision: the run that asked has ended. @default false */
  readonly isWithdrawn?: boolean;
}

/** The one call that an approval is for. All of it must be the same when the call is made. */
export interface ApprovalBinding {
  readonly tenant: string;
  /** The root run's. */
  readonly runId: string;
  /** Set where a sub-run makes the call. */
  readonly subRunId?: string;
  /** For whom the run acts. */
  readonly requesterId: string | undefined;
  readonly toolCallId: string;
  readonly declaredId: string;
  readonly instanceId: string | undefined;
  /** SHA-256 of the canonical arguments, in hex. */
  readonly argsHash: string;
  readonly policyVersion: string;
}

/** An approval as the server keeps it. */
export interface ApprovalRecord {
  readonly request: ApprovalRequest;
  readonly binding: ApprovalBinding;
  /** An approver meets every one of them. */
  readonly terms: readonly ApprovalTerms[];
  /** Which rule asked. */
  readonly rule: string;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  readonly answer?: ApprovalAnswer;
  /** Whether the call was made: an approval is used once. */
  readonly isUsed: boolean;
}

/** An approval as people may see it. */
export type ApprovalView = Pick<ApprovalRecord, 'request' | 'createdAt' | 'answer' | 'isUsed'>;

/** Which approvals to list. */
export interface ApprovalQuery {
  readonly tenant: string;
  readonly runId?: string;
  /** Only those that nobody answered. @default false */
  readonly pending?: boolean;
  /** @default 100 */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly after?: string;
}

/** The port that keeps approvals. `answer` and `use` are atomic: of two that come at once one wins. */
export abstract class ApprovalStore {
  /** Keeps a record; of two with one id the first. */
  abstract add(record: ApprovalRecord): Promise<void>;
  abstract find(approvalId: string): Promise<ApprovalRecord | undefined>;
  /** The oldest first. */
  abstract list(query: ApprovalQuery): Promise<readonly ApprovalRecord[]>;
  /** The record with its answer; undefined when it is answered already. */
  abstract answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined>;
  /** Whether the approval was there to be used, and is used up now. */
  abstract use(approvalId: string): Promise<boolean>;
  /** Resolves once the approval is answered. Rejects with the signal's reason when it is aborted. */
  abstract answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord>;
}

/** The port that is told who decided on an approval, and who tried. What it rejects keeps the decision from being taken. */
export abstract class ApprovalWitness {
  abstract decided(record: ApprovalRecord, answer: ApprovalAnswer): Promise<void>;
  /** Somebody who may see the approval said what they may not say, or too late. */
  abstract refused(record: ApprovalRecord, attempt: RefusedDecision): Promise<void>;
}

/** A decision that was not taken. */
export interface RefusedDecision {
  readonly decidedBy: string;
  readonly decision: ApprovalDecision['decision'];
  /** Why. */
  readonly code: string;
}
