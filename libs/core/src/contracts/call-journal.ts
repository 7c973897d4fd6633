import type { JsonValue, MessageLabels, RecordedAttachment, ToolFailure } from '@toolloop/protocol';
import type { Lease, LeaseHold, LeaseRequest } from './lease.js';

/**
 * The port that performs a mutating call at most once per idempotency key: the key is taken before
 * the effect.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   providers: [{ provide: CallJournal, useClass: RedisCallJournal }],
 * });
 */
export abstract class CallJournal {
  /**
   * Leases the key, atomically, or says what became of it. The same owner again gets its lease
   * again. That of a call in progress is not given to another owner, even when it has expired: its
   * effect may have taken place, so it is stolen on purpose or not at all.
   */
  abstract acquire(start: JournalStart): Promise<JournalClaim>;
  /** Returns the state of a call, without leasing it; undefined for a call that was never begun. */
  abstract find(call: JournalCall): Promise<JournalEntry | undefined>;
  /**
   * Leases the key of a call in progress, from its holder if need be. `undefined` for a call that
   * has ended or was never begun.
   */
  abstract steal(key: JournalKey, request: LeaseRequest): Promise<Lease | undefined>;
  /**
   * Keeps the outcome of a call; from then on the key answers with it. Does nothing for who does
   * not hold the lease.
   */
  abstract finish(hold: JournalHold, outcome: JournalOutcome): Promise<void>;
  /**
   * Gives a key back whose call was never begun, so that the same call may be made later. Does
   * nothing for who does not hold the lease.
   */
  abstract release(hold: JournalHold): Promise<void>;
}

/** Identifies a call across attempts, resumes and processes. */
export interface JournalKey {
  readonly tenant: string;
  /**
   * A key made from the call's position in its request, or the one that the tool declares; two
   * tools never share one.
   */
  readonly idempotencyKey: string;
}

/**
 * A key, and the proof of its lease: who has lost it neither ends the call nor gives the key back.
 */
export type JournalHold = JournalKey & LeaseHold;

/** A call, as its key is bound to it. */
export interface JournalCall extends JournalKey {
  readonly declaredId: string;
  readonly instanceId?: string;
  /** Canonical JSON. */
  readonly args: string;
}

/**
 * An attempt to make a call, as it is written before the effect. The call ends before its lease
 * expires, if it ever does.
 */
export interface JournalStart extends JournalCall, LeaseRequest {
  readonly runId: string;
}

/** The outcome of a finished call; enough to answer the model again without a second effect. */
export type JournalOutcome =
  | {
      readonly status: 'succeeded';
      /**
       * The text that the model read, without images and files; its labels are absent where they
       * are the same for every call.
       */
      readonly content: string;
      readonly ui: JsonValue;
      readonly attachments?: readonly RecordedAttachment[];
      readonly labels?: MessageLabels;
      /**
       * Set where the effect took place and only its answer is missing: why it is. `content` says
       * the same.
       */
      readonly failure?: ToolFailure;
    }
  | { readonly status: 'failed'; readonly failure: ToolFailure };

/**
 * A call that was begun. `in_progress`: it has not ended, and its lease expires in so many
 * milliseconds; after that its process is gone. It has `kept` once its `context.transaction` was
 * committed: then its effect took place, and this is what it returned.
 */
export type JournalEntry =
  | {
      readonly status: 'in_progress';
      readonly leftMs: number;
      readonly kept?: { readonly result?: unknown };
    }
  | { readonly status: 'finished'; readonly outcome: JournalOutcome };

/**
 * The answer to an attempt. `acquired`: no other attempt has the key, and now it is this one's.
 * `conflict`: the key belongs to another call.
 */
export type JournalClaim =
  | { readonly status: 'acquired'; readonly lease: Lease }
  | { readonly status: 'conflict' }
  | JournalEntry;

/**
 * The port behind `context.transaction`: effects in the same database as the journal, exactly once.
 *
 * @example
 * await context.transaction?.(() => this.orders.update({ id }, { shipped: true }));
 */
export abstract class CallTransactions {
  /**
   * Runs `work` in one transaction, together with a mark that this call has been done, and resolves
   * to what it returned, as the JSON that a model would read. Where the mark is there already it
   * resolves to what was kept, and `work` is not run. Rejects, with nothing done, where `work`
   * rejects and for a call that the journal has not begun.
   *
   * @param over aborted once nothing of the transaction is wanted any more: `work` rejects then,
   *   and a statement that does not end keeps no connection
   */
  abstract once<Result>(
    call: JournalKey,
    work: () => Promise<Result>,
    over: AbortSignal,
  ): Promise<Result>;
  /**
   * Runs `work` in one transaction that is rolled back whatever becomes of it, once the database
   * has checked what it would check at a commit; `over` as for `once`.
   */
  abstract rehearse<Result>(work: () => Promise<Result>, over: AbortSignal): Promise<Result>;
  /**
   * Runs `work` within a transaction of `rehearse`, for a call that the journal does not know; it
   * resolves as `once` does.
   */
  abstract unmarked<Result>(work: () => Promise<Result>): Promise<Result>;
}
