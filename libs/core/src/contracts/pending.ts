import type {
  ApprovalRequest,
  ApprovalTerms,
  ClientCallRequest,
  Endorsable,
  JsonObject,
  JsonValue,
  PendingDecision,
  QuestionRequest,
  RehearsalRequest,
  ToolEffect,
  ToolLabels,
  ToolPresentation,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { LeaseRequest } from './lease.js';
import type { DueNotice, NextNotice } from './notice.js';

/**
 * Something that a run has asked: a yes or no to a call or to a rehearsal, the result of a call
 * that the client is to make, or the answer to a question.
 */
export type Pending = { readonly [Kind in PendingKind]: PendingOf<Kind> }[PendingKind];

/** The changes that an approver may make to a call, if the policy allows them. */
export interface ApprovalAmendment {
  /**
   * The arguments that replace the model's: all of them, not only the changed ones. They are
   * checked like any others.
   */
  readonly args?: JsonObject;
  /**
   * `true` if the decision also covers further calls of the same tool under the same rule in the
   * same run.
   */
  readonly remember?: boolean;
  /**
   * The things that the approver trusts for the rest of the run, of those that the request names.
   */
  readonly endorse?: Pick<Endorsable, 'arguments' | 'sources'>;
}

/** The answer of a person or a client, or of the run itself where it has ended. */
export interface PendingAnswer extends ApprovalAmendment {
  /**
   * `approve` is for approvals and rehearsals, `answer` for everything else. With `deny` a person
   * says no, and a client that it will not; `withdraw` is the actor's own.
   */
  readonly decision: PendingDecision;
  /** The value that was asked for; of an `answer` alone. */
  readonly value?: JsonValue;
  readonly reason?: string;
  readonly decidedBy: string;
  /** The time of the decision: ISO 8601, UTC. */
  readonly decidedAt: string;
  /** `true` if no person decided, since the run has ended. @default false */
  readonly isWithdrawn?: boolean;
}

/** Tells whether an answer can be used: a yes, or a value. */
export function isUsable({ decision }: Pick<PendingAnswer, 'decision'>): boolean {
  return decision === 'approve' || decision === 'answer';
}

/**
 * The form of a tool when a person was asked about a call of it. A yes counts for this form alone.
 */
export interface ShownForm {
  readonly description: string;
  readonly effect: ToolEffect;
  readonly labels: ToolLabels;
  /** The SHA-256 of the schemas of its arguments and its result, in hex. */
  readonly schemaHash: string;
  readonly presentation?: ToolPresentation;
}

/**
 * The call that an answer is for, or the list of calls of a rehearsal. All of it must be the same
 * when the answer is used.
 */
export interface PendingBinding {
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
  /** The SHA-256 of the canonical arguments, or of the list of calls, in hex. */
  readonly argsHash: string;
  readonly policyVersion: string;
  /**
   * The form of the tool that the person saw; of an approval. Absent in approvals of earlier
   * releases, which count for nothing any more.
   */
  readonly form?: ShownForm;
}

/** The requests of runs by their kind, as the people who answer see them. */
export interface PendingRequests {
  readonly approval: ApprovalRequest;
  readonly client: ClientCallRequest;
  readonly question: QuestionRequest;
  readonly rehearsal: RehearsalRequest;
}

export type PendingKind = keyof PendingRequests;

/**
 * Something of one kind that a run has asked and that waits for its answer, as the server stores
 * it.
 */
export interface PendingOf<Kind extends PendingKind> {
  readonly id: string;
  readonly kind: Kind;
  readonly binding: PendingBinding;
  /** The hash of tenant, actor and id of the conversation that asks. Absent outside of one. */
  readonly conversation?: string;
  /** The request itself, which bears the id and the expiry as well. */
  readonly request: PendingRequests[Kind];
  /** The schema that the value of an answer must fit. @default any JSON */
  readonly schema?: JSONSchema7;
  /**
   * The terms of the people admitted to answer, all of which they must meet; without terms the
   * actor of the run is.
   */
  readonly admitted: readonly ApprovalTerms[];
  /** The rule that asked. */
  readonly rule: string;
  /** The time of the request: ISO 8601, UTC. */
  readonly createdAt: string;
  /** The time from which it can be neither answered nor used: ISO 8601, UTC. */
  readonly expiresAt: string;
  /**
   * The time at which people are first told that it still waits: ISO 8601, UTC. @default they are
   * not
   */
  readonly noticeAt?: string;
  readonly answer?: PendingAnswer;
  /** The time at which the answer was used, which happens once: ISO 8601, UTC. */
  readonly usedAt?: string;
}

export type PendingApproval = PendingOf<'approval'>;

/** A request of one kind, as people may see it. */
export type PendingViewOf<Kind extends PendingKind> = Pick<
  PendingOf<Kind>,
  'id' | 'kind' | 'request' | 'createdAt' | 'answer' | 'usedAt'
>;

/** A request of a run, as people may see it. */
export type PendingView = { readonly [Kind in PendingKind]: PendingViewOf<Kind> }[PendingKind];

/**
 * A request in a person's list: who asks, whether this person's answer counts, and the roles of
 * which those who answer must have one by now; absent where no role is asked for.
 */
export type InboxEntry = PendingView & {
  readonly requestedBy?: string;
  readonly mayAnswer: boolean;
  readonly roles?: readonly string[];
};

/** A selection of questions. */
export interface PendingQuery {
  readonly tenant: string;
  readonly runId?: string;
  /** Limits the list to what the runs of one conversation asked, by the hash in the records. */
  readonly conversation?: string;
  /** Limits the list to what has no answer. @default false */
  readonly pending?: boolean;
  /** The size of a page. @default 100 */
  readonly limit?: number;
  /** The id of the last one of the previous page. */
  readonly after?: string;
}

/** A day, where no rule says otherwise. */
export const EXPIRES_AFTER_MS = 86_400_000;

/**
 * The port that stores what runs ask of people. `claim`, `answer` and `use` are atomic: of two
 * concurrent calls one wins.
 *
 * @example
 * class RedisPendingStore extends PendingStore {
 *   async use(id: string): Promise<boolean> {
 *     return (await this.redis.set(`used:${id}`, '1', { NX: true })) === 'OK';
 *   }
 *   // … and the other methods; `pendingStoreContract` of `@toolloop/testing` checks them
 * }
 */
export abstract class PendingStore {
  /** Stores a record; of two with the same id the first stays. */
  abstract add(record: Pending): Promise<void>;
  abstract find(id: string): Promise<Pending | undefined>;
  /** Lists records, the oldest first. */
  abstract list(query: PendingQuery): Promise<readonly Pending[]>;
  /**
   * Leases the right to answer, and returns whether this owner has it: a decision is recorded
   * before it is taken, and of two processes only one may record its decision. Another owner gets
   * it once the lease has expired; the same owner gets it again, for 0 ms to give it back. `false`
   * once there is an answer.
   */
  abstract claim(id: string, request: LeaseRequest): Promise<boolean>;
  /** Stores the answer and returns the record with it; undefined when it has one already. */
  abstract answer(id: string, answer: PendingAnswer): Promise<Pending | undefined>;
  /**
   * Uses up a yes or a value, and returns whether it could be used: a denial and a withdrawal
   * cannot, and nothing is used twice.
   */
  abstract use(id: string): Promise<boolean>;
  /**
   * Leases notices that are due, of what has no answer, the earliest first. The same owner gets
   * them once; another one gets them when the lease has expired, which is how a notice is told
   * whose process has died.
   */
  abstract due(request: LeaseRequest, most: number): Promise<readonly DueNotice[]>;
  /**
   * Ends the lease of a notice with what is due next, or with nothing. Does nothing for who does
   * not hold it.
   */
  abstract reschedule(id: string, owner: string, next?: NextNotice): Promise<void>;
  /** Resolves once there is an answer. Rejects with the signal's reason when it is aborted. */
  abstract answered(id: string, signal: AbortSignal): Promise<Pending>;
}
