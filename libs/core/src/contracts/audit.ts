import {
  type Decision,
  type JsonObject,
  type PendingDecision,
  StorageUnavailableError,
  type ToolErrorCode,
} from '@toolloop/protocol';
import type { OperatorAction } from './operator.js';
import type { ApprovalAmendment, PendingKind } from './pending.js';

/**
 * The port that stores the audit. It can only grow: entries cannot be changed or removed. The key
 * never reaches it, so write access to a database is enough to destroy an audit but not to forge
 * it.
 *
 * @example
 * class PostgresAuditStore extends AuditStore {
 *   append(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): Promise<void> {
 *     return this.database.transaction(async (sql) =>
 *       insert(sql, build(await lockHead(sql, tenant))),
 *     );
 *   }
 *   // … and the other methods; `auditStoreContract` of `@toolloop/testing` checks them
 * }
 */
export abstract class AuditStore {
  /**
   * True if the store keeps entries of a tenant together that come while another is being stored:
   * then none of them waits for its turn outside of it.
   */
  readonly storesTogether: boolean = false;

  /**
   * Appends the entry that `build` makes from the tenant's head, undefined for the first, and
   * resolves once it is stored; a store that has stored it when this returns may return nothing.
   * Atomic per tenant across processes: an adapter locks the head, or repeats on a conflict;
   * `build` may be called again. An entry with the same hash is stored once. Rejects, or throws, if
   * the entry was not stored, and with the error of `build`.
   */
  abstract append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void>;
  abstract head(tenant: string): Promise<AuditHead | undefined>;
  /**
   * Reads the tenant's entries from a sequence on, in order, at most `limit`; empty past the end.
   */
  abstract read(
    tenant: string,
    page: { readonly from: number; readonly limit: number },
  ): Promise<readonly AuditEntry[]>;
}

/**
 * The call that an entry is about, and its actor. An entry about no call, such as an operator's
 * action, has the actor alone.
 */
export interface AuditSubject {
  /** The id of the actor. Absent if the actor has none. */
  readonly actorId?: string;
  readonly runId?: string;
  /** The id of the root run, if a sub-run makes the call. */
  readonly rootRunId?: string;
  readonly toolCallId?: string;
  /** The step of the call, from 1. */
  readonly step?: number;
  /** The declared id of the tool. Absent if no tool has the called id. */
  readonly declaredId?: string;
  /**
   * The hash of the declaration of a tool from an untrusted source: which one was called can be
   * told later.
   */
  readonly schemaHash?: string;
  /** The id that the model called, if no tool has it; cut to 64 characters. */
  readonly calledId?: string;
  /** The real id of an entity, never a handle. */
  readonly instanceId?: string;
  /** Set for a call of a rehearsal, of which nothing was kept. */
  readonly isRehearsal?: true;
  /** The id under which the log has the cause. */
  readonly correlationId?: string;
}

/**
 * The event of an entry. A `decision` of the policy is recorded whether it allows the call or not;
 * `denied` is a call that was not made; `opt-out` is a call to which a rule does not apply, for
 * this reason: its tool uses names of `reservedArguments`, or guards of its route, or the
 * application vouches for its `client`.
 */
export type AuditEvent =
  | {
      readonly kind: 'decision';
      readonly decision: Decision;
      readonly shadow?: readonly Decision[];
    }
  | { readonly kind: 'denied'; readonly code: ToolErrorCode }
  | {
      readonly kind: 'approval-request';
      readonly approvalId: string;
      readonly reason: string;
      readonly expiresAt: string;
    }
  | {
      readonly kind: 'approval-decision';
      readonly approvalId: string;
      readonly decision: PendingDecision;
      /** The id of the approver; the subject's `actorId` is that of the run's actor. */
      readonly decidedBy: string;
      readonly decidedAt: string;
      readonly reason?: string;
      /** `true` if the approver changed the arguments. */
      readonly edited: boolean;
      /**
       * The things that the approver trusts for the rest of the run: arguments by their names, and
       * sources.
       */
      readonly endorsed?: ApprovalAmendment['endorse'];
    }
  | {
      readonly kind: 'approval-refusal';
      readonly approvalId: string;
      readonly decision: PendingDecision;
      /** The id of the person who tried to decide. */
      readonly decidedBy: string;
      /** The reason of the refusal. */
      readonly code: string;
    }
  /**
   * A request of a run beside approvals, and its answer: of a value the entry has the size and the
   * hash.
   */
  | {
      readonly kind: 'pending-request';
      readonly pendingId: string;
      readonly of: PendingKind;
      readonly expiresAt: string;
    }
  | {
      readonly kind: 'pending-answer' | 'pending-refusal';
      readonly pendingId: string;
      readonly of: PendingKind;
      readonly decision: PendingDecision;
      /** The id of the person who answered, or tried to. */
      readonly answeredBy: string;
      readonly reason?: string;
      /** The reason of a refusal. */
      readonly code?: string;
    }
  | {
      readonly kind: 'outcome';
      readonly status: 'succeeded' | 'failed' | 'unknown';
      readonly durationMs: number;
      readonly code?: ToolErrorCode;
    }
  | { readonly kind: 'opt-out'; readonly names: readonly string[]; readonly reason: string }
  | {
      readonly kind: 'operator';
      readonly action: OperatorAction;
      /** `false` for an attempt that was refused; it is in the audit of the person's own tenant. */
      readonly granted: boolean;
      /** The own tenant of an operator who acts in this one. Absent where it is the same. */
      readonly operatorTenant?: string;
      /** The tenant that a refused attempt was about. Absent where it is this one. */
      readonly ofTenant?: string;
      readonly details?: JsonObject;
    }
  /**
   * A change in a source of tools: those that came, that went and that are in quarantine. It is in
   * the audit of no tenant, but in that of the application.
   */
  | { readonly kind: 'source'; readonly source: string; readonly details: JsonObject }
  | {
      readonly kind: `directive-${string}`;
      readonly directiveId: string;
      readonly details?: JsonObject;
    };

/**
 * The evidence of arguments and result. The hashes are HMACs under the entry's key: a plain hash
 * would reveal a value that can be guessed.
 */
export interface AuditEvidence {
  readonly argsHash?: string;
  /** The arguments without the hidden ones; only if the application chose `redacted`. */
  readonly args?: JsonObject;
  /** The size of the whole text of the result, in bytes. */
  readonly resultBytes?: number;
  readonly resultHash?: string;
}

/** The place of an entry in its tenant's chain, with its signature. */
export interface AuditStamp {
  /** The version of the format, so that a chain can still be read in ten years. */
  readonly version: 1;
  readonly tenant: string;
  /**
   * A UUID made once for each event: two equal events are two entries, and an append whose answer
   * was lost is known again.
   */
  readonly entryId: string;
  /** The number of the entry within its tenant, from 1, without a gap. */
  readonly sequence: number;
  /** The time of the record: ISO 8601. */
  readonly at: string;
  /** The id of the key that signed the entry. */
  readonly keyId: string;
  /**
   * The hash of the tenant's previous entry; for the first a value derived from the tenant's name.
   */
  readonly previousHash: string;
  /** HMAC-SHA256, in lower-case hex, of the canonical JSON of the entry without this field. */
  readonly hash: string;
}

/** One line of the audit: JSON, frozen, never changed and never removed. */
export type AuditEntry = AuditStamp & AuditSubject & AuditEvidence & AuditEvent;

/** The end of a chain, which the next entry must refer to. */
export interface AuditHead {
  readonly tenant: string;
  readonly sequence: number;
  readonly hash: string;
}

/**
 * A head to store elsewhere: it proves later that no entries were cut from the end. A chain without
 * entries has the sequence 0.
 */
export interface SignedAuditHead extends AuditHead {
  readonly version: 1;
  readonly at: string;
  readonly keyId: string;
  readonly signature: string;
}

/**
 * Thrown if an entry could not be stored. The call that the entry is about is not made then, and
 * nothing is said of it: to a run this is a storage that is unavailable, so a durable one is handed
 * over, and another ends `storage_unavailable`. The cause is for logs.
 */
export class AuditError extends StorageUnavailableError {
  override readonly name: string = 'AuditError';

  constructor(message?: string, options: { readonly cause?: unknown } = {}) {
    super(message, { ...options, mayPass: false });
  }
}
