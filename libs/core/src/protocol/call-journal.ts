import type { RecordedAttachment } from './attachment.js';
import type { JsonValue } from './json.js';
import type { ToolFailure } from './tool-error.js';

/** Identifies a call across attempts, resumes and processes. */
export interface JournalKey {
  readonly tenant: string;
  /** Of the place of the call in its request, or of what the tool declares; two tools never share one. */
  readonly idempotencyKey: string;
}

/** A key, and whose it is now: who lost it to somebody else neither ends the call nor gives the key back. */
export interface JournalHold extends JournalKey {
  /** Of one attempt to make the call, made up by who attempts it; no two are the same. */
  readonly claimId: string;
}

/** A call, as its key is bound to it. */
export interface JournalCall extends JournalKey {
  readonly declaredId: string;
  readonly instanceId?: string;
  /** Canonical JSON. */
  readonly args: string;
}

/** What is written before the effect. */
export interface JournalStart extends JournalHold, JournalCall {
  readonly runId: string;
  /** Milliseconds from now within which the call ends, if it ever does. */
  readonly mostMs: number;
}

/** What a finished call came to; enough to answer the model again without a second effect. */
export type JournalOutcome =
  | {
      readonly status: 'succeeded';
      /** What the model read, its images and files left out. */
      readonly content: string;
      readonly ui: JsonValue;
      readonly attachments?: readonly RecordedAttachment[];
      /** Set where the effect took place and only its answer is missing: why it is. `content` says the same. */
      readonly failure?: ToolFailure;
    }
  | { readonly status: 'failed'; readonly failure: ToolFailure };

/**
 * A call that was begun. `in_progress`: it has not ended, and has so many milliseconds left to; with none left whoever began it is gone. It has `kept` once its
 * `context.transaction` was committed: then its effect took place, and this is what it returned.
 */
export type JournalEntry =
  | { readonly status: 'in_progress'; readonly leftMs: number; readonly kept?: { readonly result?: unknown } }
  | { readonly status: 'finished'; readonly outcome: JournalOutcome };

/** `started`: nobody has run this key yet, and now it is taken. `conflict`: the key belongs to another call. */
export type JournalClaim = { readonly status: 'started' | 'conflict' } | JournalEntry;

/** The port that performs a mutating call at most once per idempotency key: the key is taken before the effect. */
export abstract class CallJournal {
  /** Takes the key, atomically, or says what became of it. By the same claim again, as after an answer that was lost, it is `started`. */
  abstract begin(start: JournalStart): Promise<JournalClaim>;
  /** What became of a call, and takes nothing; undefined where it was not begun. */
  abstract find(call: JournalCall): Promise<JournalEntry | undefined>;
  /**
   * Takes the key of a call that is in progress from whoever has it, for a call that ends within so many milliseconds. False where nobody has it: the call has ended,
   * or was never begun.
   */
  abstract takeOver(hold: JournalHold, mostMs: number): Promise<boolean>;
  /** Keeps what became of a call; from then on the key answers with it. Does nothing for who does not have the key. */
  abstract finish(hold: JournalHold, outcome: JournalOutcome): Promise<void>;
  /** Gives a key back whose call was never begun, so that the same call may be made later. Does nothing for who does not have the key. */
  abstract release(hold: JournalHold): Promise<void>;
}
