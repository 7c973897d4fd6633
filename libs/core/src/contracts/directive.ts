import type {
  ApprovalTerms,
  DirectiveEventType,
  DirectiveStatus,
  JsonObject,
  JsonValue,
  ToolFailure,
  ToolPreview,
} from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import type { Lease, LeaseHold, LeaseRequest } from './lease.js';
import type { Policy, PolicyCall } from './policy.js';

/** A directive as the server stores it. */
export interface DirectiveRecord extends DirectiveState {
  readonly intent: DirectiveIntent;
}

/** The task of a directive: its effect, or the undoing of it. */
export type DirectiveTask = 'perform' | 'compensate';

/** The key of a directive. It includes the tenant, so an id alone finds nothing. */
export interface DirectiveReference {
  readonly tenant: string;
  readonly directiveId: string;
}

/** The call that is performed, as it was permitted, checked and approved. */
export interface DirectiveCall {
  readonly declaredId: string;
  /** The real id of an entity, never a handle. */
  readonly instanceId?: string;
  /** The arguments as canonical JSON, hidden ones included. */
  readonly args: string;
  /** The id of the run that requested it. */
  readonly runId: string;
  readonly toolCallId: string;
  /** The step of the call, from 1. */
  readonly step: number;
  /** The position among the calls of the step, from 0. */
  readonly index: number;
}

/**
 * The actor and the rules under which a directive is performed. All of it is checked again then.
 */
export interface DirectiveAuthority {
  readonly actorId: string;
  /** The policies of the run and its loop, beside the application's. */
  readonly policies: readonly Policy[];
  /** The labels of everything that the model had read. */
  readonly flow: {
    readonly integrity: 'trusted' | 'untrusted';
    readonly confidentiality: 'public' | 'private';
    /**
     * Bits from outside, where they can be counted. @default none where it is trusted, else any
     * number
     */
    readonly outsideBits?: number;
    /** Set where the model had committed itself to this very call; or to what decides it alone. */
    readonly committed?: boolean | 'decisive';
    /**
     * The arguments that hold text from outside which the model did not read, and the places of
     * those texts. @default none
     */
    readonly outside?: PolicyCall['outside'];
  };
  /** The approval of a person, with its rule, policy and terms. It covers this directive alone. */
  readonly approved?: DirectiveApproval;
}

/** The approval of a directive. */
export interface DirectiveApproval {
  readonly approvalId: string;
  readonly rule: string;
  readonly policyVersion: string;
  readonly terms: readonly ApprovalTerms[];
  /**
   * The hash of the form of the tool that the person saw: the approval does not cover another.
   * @default any form, of a directive of an earlier release
   */
  readonly form?: string;
}

/** The intent of a directive. It never changes; all of it is JSON. */
export interface DirectiveIntent extends DirectiveReference {
  /**
   * The key `{type}:{tenant}:{subject}:{request_id}`, each part URI-encoded. Unique per tenant; it
   * is the idempotency key of the effect, too.
   */
  readonly key: string;
  readonly type: string;
  readonly subject: string;
  readonly call: DirectiveCall;
  readonly authority: DirectiveAuthority;
  /** The arguments in the ui projection. */
  readonly shownArgs: JsonObject;
  readonly preview?: ToolPreview;
  /** The id of the request that the run answered. */
  readonly correlationId: string;
  /** The time of the request: ISO 8601, UTC. */
  readonly createdAt: string;
}

/** The state of a directive. */
export interface DirectiveState {
  readonly task: DirectiveTask;
  readonly status: DirectiveStatus;
  /**
   * The number of its last lease, 0 before the first. The holder of an earlier one can no longer
   * change it.
   */
  readonly epoch: number;
  /** The number of attempts at its task since it was requested, or redriven. */
  readonly attempts: number;
  /**
   * The times in a row that it was put off since a store failed; absent where the last attempt
   * could be made.
   */
  readonly putOffs?: number;
  /** The time to perform it: ISO 8601, UTC. Only for a pending one. */
  readonly dueAt?: string;
  /**
   * The lease of the process that performs it; only while it is performed. Once it has expired,
   * another process may acquire the directive.
   */
  readonly lease?: Lease;
  /** The result of the effect, in the ui projection. */
  readonly result?: JsonValue;
  /** The failure of the last attempt. */
  readonly failure?: ToolFailure;
  /** The time of the last change: ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A directive that is being performed. */
export type LeasedDirective = DirectiveRecord & { readonly lease: Lease };

/** A directive, and the proof of its lease. */
export type DirectiveHold = DirectiveReference & LeaseHold;

/**
 * Returns the time from which a directive may be acquired, ISO 8601; `undefined` for one that is
 * over.
 */
export function acquirableAt({ lease, dueAt }: DirectiveState): string | undefined {
  return lease?.expiresAt ?? dueAt;
}

/** A change of a directive, small enough to be sent to other processes. */
export interface DirectiveEvent extends DirectiveReference {
  readonly event: DirectiveEventType;
  readonly type: string;
  readonly subject: string;
  readonly task: DirectiveTask;
  readonly status: DirectiveStatus;
  readonly epoch: number;
  readonly attempts: number;
  readonly runId: string;
  readonly toolCallId: string;
  readonly step: number;
  readonly correlationId: string;
  /** The time of the change: ISO 8601, UTC. */
  readonly at: string;
}

/** Makes the event of a change. */
export function toDirectiveEvent(
  event: DirectiveEventType,
  record: DirectiveRecord,
): DirectiveEvent {
  const { intent, task, status, epoch, attempts, updatedAt } = record;
  const { tenant, directiveId, type, subject, correlationId } = intent;
  const { runId, toolCallId, step } = intent.call;
  return {
    event,
    tenant,
    directiveId,
    type,
    subject,
    task,
    status,
    epoch,
    attempts,
    runId,
    toolCallId,
    step,
    correlationId,
    at: updatedAt,
  };
}

/**
 * The state that a change starts from. If the directive is in another state by now, nothing
 * changes.
 */
export interface DirectiveVersion extends DirectiveReference {
  readonly status: DirectiveStatus;
  readonly epoch: number;
  /** The holder of its lease, where it has one. */
  readonly owner?: string;
}

/** Returns the state that a directive is in. */
export function versionOf({ intent, status, epoch, lease }: DirectiveRecord): DirectiveVersion {
  const { tenant, directiveId } = intent;
  return { tenant, directiveId, status, epoch, ...(lease && { owner: lease.owner }) };
}

/** The fields that a change sets. */
export interface DirectiveChange {
  readonly event: DirectiveEventType;
  readonly status: DirectiveStatus;
  /** @default as it was */
  readonly task?: DirectiveTask;
  /** @default as it was */
  readonly attempts?: number;
  /** @default 0: a change for any other reason ends the count */
  readonly putOffs?: number;
  /** The milliseconds until it is due. Set for `pending` only. */
  readonly dueInMs?: number;
  /** The lease of the new holder. Set for `performing` only. */
  readonly lease?: LeaseRequest;
  /** @default as it was */
  readonly result?: JsonValue;
  /** The failure; if absent, an earlier one is removed. */
  readonly failure?: ToolFailure;
}

/** A query for directives. */
export interface DirectiveQuery {
  readonly tenant: string;
  readonly status?: DirectiveStatus;
  readonly subject?: string;
  /** Limits the list to directives that this actor requested. */
  readonly actorId?: string;
  /** The size of a page. @default 100 */
  readonly limit?: number;
  /** The id of the last directive of the previous page. */
  readonly after?: string;
}

/** The outcome of `add`. */
export interface AddedDirective {
  /** The directive with the key: the new one, or the one that was there first. */
  readonly record: DirectiveRecord;
  readonly isNew: boolean;
}

/** Ends the work of a process; resolves once the directives in progress have ended. */
export type StopWork = () => Promise<void>;

/**
 * The port that stores directives and hands them to workers. Row and wake-up are one: a change that
 * leaves a directive `pending` or `performing` ensures, in the same transaction, that a worker is
 * called when it is due, in any process and after any crash. Times are compared by one clock, that
 * of the store.
 *
 * @example
 * class QueueDirectiveStore extends DirectiveStore {
 *   add(intent: DirectiveIntent, first = async () => {}): Promise<AddedDirective> {
 *     return this.database.transaction(async (sql) => {
 *       await first();
 *       return insertOrFind(sql, intent);
 *     });
 *   }
 *   // … and the other methods; `directiveStoreContract` of `@toolloop/testing` checks them
 * }
 */
export abstract class DirectiveStore {
  /**
   * The changes by this process, in order, and those by others as far as the store receives them.
   * It never errors.
   */
  abstract readonly changes$: Observable<DirectiveEvent>;
  /**
   * Stores a directive as `pending`, due at once; or returns the one that has its key already.
   * Atomic: of any number with the same key one is new. `first` runs before, in the same
   * transaction if the store has transactions: if it rejects, the directive is not stored, and its
   * writes to the same database are committed with the directive or not at all.
   */
  abstract add(intent: DirectiveIntent, first?: () => Promise<void>): Promise<AddedDirective>;
  abstract find(reference: DirectiveReference): Promise<DirectiveRecord | undefined>;
  /** Lists directives, the newest first. */
  abstract list(query: DirectiveQuery): Promise<readonly DirectiveRecord[]>;
  /**
   * Leases a directive that is due, or whose lease has expired: it becomes `performing`, and its
   * epoch and its attempts increase by one. The same owner gets its lease again, without an event.
   * Returns `undefined` if there is nothing to lease. Atomic: of two concurrent owners one gets it.
   */
  abstract acquire(
    reference: DirectiveReference,
    request: LeaseRequest,
  ): Promise<LeasedDirective | undefined>;
  /**
   * Extends the lease of a directive to a number of milliseconds from now, without an event.
   * Returns `false` if the holder has lost it.
   */
  abstract renew(hold: DirectiveHold, forMs: number): Promise<boolean>;
  /**
   * Changes a directive and returns the new record; undefined if it was no longer in that state.
   * Atomic.
   */
  abstract change(
    from: DirectiveVersion,
    change: DirectiveChange,
  ): Promise<DirectiveRecord | undefined>;
  /**
   * Calls `perform` with every directive that is due, again if it rejects, and at most
   * `concurrency` at once. Several calls for one directive do no harm, since `acquire` decides.
   */
  abstract work(
    perform: (reference: DirectiveReference) => Promise<void>,
    concurrency: number,
  ): Promise<StopWork>;
}
