import type { Decision, JsonObject, ToolErrorCode } from '@toolloop/protocol';

/** Which call an entry is about, and for whom it was made. */
export interface AuditSubject {
  /** Absent where nothing identifies the actor. */
  readonly actorId?: string;
  readonly runId: string;
  /** Of the run around all others, where the call is made in a sub-run. */
  readonly rootRunId?: string;
  readonly toolCallId: string;
  /** From 1. */
  readonly step: number;
  /** Absent where no tool has the id that was called. */
  readonly declaredId?: string;
  /** What the model called where no tool has that id; its first 64 characters are kept. */
  readonly calledId?: string;
  /** The real id of an entity, never a handle. */
  readonly instanceId?: string;
  /** Leads to the cause in the log. */
  readonly correlationId?: string;
}

/**
 * What happened. A policy's answer is kept whether it allows or not; `denied` is an attempt that came to nothing; `opt-out` is a call to a tool that
 * declared, with this reason, that the names of `reservedArguments` do not hold for it.
 */
export type AuditEvent =
  | { readonly kind: 'decision'; readonly decision: Decision; readonly shadow?: readonly Decision[] }
  | { readonly kind: 'denied'; readonly code: ToolErrorCode }
  | { readonly kind: 'approval-request'; readonly approvalId: string; readonly reason: string; readonly expiresAt: string }
  | {
      readonly kind: 'approval-decision';
      readonly approvalId: string;
      readonly decision: 'approve' | 'deny';
      /** Who decided; the subject's `actorId` is whom the run acts for. */
      readonly decidedBy: string;
      readonly decidedAt: string;
      readonly reason?: string;
      /** Whether the arguments were changed by who approved them. */
      readonly edited: boolean;
    }
  | {
      readonly kind: 'approval-refusal';
      readonly approvalId: string;
      readonly decision: 'approve' | 'deny';
      /** Who tried to decide. */
      readonly decidedBy: string;
      /** Why it was not taken. */
      readonly code: string;
    }
  | {
      readonly kind: 'outcome';
      readonly status: 'succeeded' | 'failed' | 'unknown';
      readonly durationMs: number;
      readonly code?: ToolErrorCode;
    }
  | { readonly kind: 'opt-out'; readonly names: readonly string[]; readonly reason: string }
  | { readonly kind: `directive-${string}`; readonly directiveId: string; readonly details?: JsonObject };

/** What is kept of arguments and result. The hashes are HMACs under the entry's key: a plain hash of a guessable value would give the value away. */
export interface AuditEvidence {
  readonly argsHash?: string;
  /** The arguments without the hidden ones; only where the application asked for them. */
  readonly args?: JsonObject;
  /** Of the whole text that was handed in. */
  readonly resultBytes?: number;
  readonly resultHash?: string;
}

/** Where an entry stands in its tenant's chain. */
export interface AuditStamp {
  /** Of the format, so that a chain of today can be read in ten years. */
  readonly version: 1;
  readonly tenant: string;
  /** A UUID made once for each event: two equal events are two entries, and an append whose answer was lost is known again. */
  readonly entryId: string;
  /** From 1, per tenant, without a gap. */
  readonly sequence: number;
  /** When it was recorded, as ISO 8601. */
  readonly at: string;
  /** Which key signed it. */
  readonly keyId: string;
  /** The hash of the tenant's entry before; a value made of the tenant's name for the first. */
  readonly previousHash: string;
  /** HMAC-SHA256, in lower-case hex, of the canonical JSON of the entry without this field. */
  readonly hash: string;
}

/** One line of the audit: JSON, frozen, never changed and never removed. */
export type AuditEntry = AuditStamp & AuditSubject & AuditEvidence & AuditEvent;

/** What the entry after must name. */
export interface AuditHead {
  readonly tenant: string;
  readonly sequence: number;
  readonly hash: string;
}

/** A head to keep elsewhere: with it, entries cut from the end of a chain show. A chain without entries has the sequence 0. */
export interface SignedAuditHead extends AuditHead {
  readonly version: 1;
  readonly at: string;
  readonly keyId: string;
  readonly signature: string;
}

/**
 * The port that keeps the audit. It can only grow: there is no way to change or remove an entry. The key never reaches it, so whoever can write to a
 * database can destroy an audit but not forge it.
 */
export abstract class AuditStore {
  /**
   * Appends the one entry that `build` makes of the tenant's last, undefined for the first, and resolves once it is kept. Atomic per tenant across
   * processes: an adapter locks the head, or tries again on a conflict; `build` may be called again. An entry that is there with the same hash is kept once. Rejects when nothing was kept, and with what
   * `build` throws.
   */
  abstract append(tenant: string, build: (head: AuditHead | undefined) => AuditEntry): Promise<void>;
  abstract head(tenant: string): Promise<AuditHead | undefined>;
  /** The tenant's entries from this sequence on, in order, at most `limit`; empty past the end. */
  abstract read(tenant: string, page: { readonly from: number; readonly limit: number }): Promise<readonly AuditEntry[]>;
}

/** An entry could not be kept. What it is about must not happen: the caller refuses the call. */
export class AuditError extends Error {
  override readonly name = 'AuditError';
}
