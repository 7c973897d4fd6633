import type { ApprovalDecision, ApprovalRequest, ApprovalTerms, JsonObject } from '@toolloop/protocol';
import type { LeaseRequest } from './lease.js';

/** The changes that an approver may make to a call, if the policy allows them. */
export interface ApprovalAmendment {
  /** The arguments that replace the model's: all of them, not only the changed ones. They are checked like any others. */
  readonly args?: JsonObject;
  /** `true` if the decision also covers further calls of the same tool under the same rule in the same run. */
  readonly remember?: boolean;
}

/** The decision of a person. */
export interface ApprovalAnswer extends ApprovalAmendment {
  readonly decision: ApprovalDecision['decision'];
  readonly reason?: string;
  readonly decidedBy: string;
  /** The time of the decision: ISO 8601, UTC. */
  readonly decidedAt: string;
  /** `true` if no person decided, since the run has ended. @default false */
  readonly isWithdrawn?: boolean;
}

/** The call that an approval covers. All of it must be the same when the call is made. */
export interface ApprovalBinding {
  readonly tenant: string;
  /** The id of the root run. */
  readonly runId: string;
  /** The id of the sub-run that makes the call, if one does. */
  readonly subRunId?: string;
  /** The id of the actor of the run. */
  readonly requesterId: string | undefined;
  readonly toolCallId: string;
  readonly declaredId: string;
  readonly instanceId: string | undefined;
  /** The SHA-256 of the canonical arguments, in hex. */
  readonly argsHash: string;
  readonly policyVersion: string;
}

/** An approval as the server stores it. */
export interface ApprovalRecord {
  readonly request: ApprovalRequest;
  readonly binding: ApprovalBinding;
  /** The terms, all of which an approver must meet. */
  readonly terms: readonly ApprovalTerms[];
  /** The rule that required the approval. */
  readonly rule: string;
  /** The time of the request: ISO 8601, UTC. */
  readonly createdAt: string;
  readonly answer?: ApprovalAnswer;
  /** `true` once the call was made: an approval is used once. */
  readonly isUsed: boolean;
}

/** An approval as people may see it. */
export type ApprovalView = Pick<ApprovalRecord, 'request' | 'createdAt' | 'answer' | 'isUsed'>;

/** A query for approvals. */
export interface ApprovalQuery {
  readonly tenant: string;
  readonly runId?: string;
  /** Limits the list to approvals without an answer. @default false */
  readonly pending?: boolean;
  /** The size of a page. @default 100 */
  readonly limit?: number;
  /** The id of the last approval of the previous page. */
  readonly after?: string;
}

/**
 * The port that stores approvals. `claim`, `answer` and `use` are atomic: of two concurrent calls one wins.
 *
 * @example
 * class RedisApprovalStore extends ApprovalStore {
 *   async use(approvalId: string): Promise<boolean> {
 *     return (await this.redis.set(`used:${approvalId}`, '1', { NX: true })) === 'OK';
 *   }
 *   // … and the other methods; `approvalStoreContract` of `@toolloop/testing` checks them
 * }
 */
export abstract class ApprovalStore {
  /** Stores a record; of two with the same id the first stays. */
  abstract add(record: ApprovalRecord): Promise<void>;
  abstract find(approvalId: string): Promise<ApprovalRecord | undefined>;
  /** Lists approvals, the oldest first. */
  abstract list(query: ApprovalQuery): Promise<readonly ApprovalRecord[]>;
  /**
   * Leases the right to decide, and returns whether this owner has it: a decision is recorded before it is taken, and of two processes only one may record its decision.
   * Another owner gets it once the lease has expired; the same owner gets it again, for 0 ms to give it back. `false` once there is an answer.
   */
  abstract claim(approvalId: string, request: LeaseRequest): Promise<boolean>;
  /** Stores the answer and returns the record with it; undefined when it has one already. */
  abstract answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined>;
  /** Uses up an approval, and returns whether it could be used. */
  abstract use(approvalId: string): Promise<boolean>;
  /** Resolves once the approval is answered. Rejects with the signal's reason when it is aborted. */
  abstract answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord>;
}

/**
 * The port that records decisions on approvals, and attempts at them. If it rejects, the decision is not taken.
 *
 * @example
 * class LoggingWitness extends ApprovalWitness {
 *   async decided({ request }: ApprovalRecord, { decision, decidedBy }: ApprovalAnswer): Promise<void> {
 *     await this.log.write({ approvalId: request.approvalId, decision, decidedBy });
 *   }
 *
 *   async refused({ request }: ApprovalRecord, { code }: RefusedDecision): Promise<void> {
 *     await this.log.write({ approvalId: request.approvalId, code });
 *   }
 * }
 */
export abstract class ApprovalWitness {
  abstract decided(record: ApprovalRecord, answer: ApprovalAnswer): Promise<void>;
  /** Records a decision that was refused, of a person who may see the approval. */
  abstract refused(record: ApprovalRecord, attempt: RefusedDecision): Promise<void>;
}

/** A decision that was refused. */
export interface RefusedDecision {
  readonly decidedBy: string;
  readonly decision: ApprovalDecision['decision'];
  /** The reason: the code of the `ApprovalError`. */
  readonly code: string;
}
