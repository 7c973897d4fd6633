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

/** What is written before the effect. */
export interface JournalStart extends JournalHold {
  readonly runId: string;
  readonly declaredId: string;
  readonly instanceId?: string;
  /** Canonical JSON. */
  readonly args: string;
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
    }
  | { readonly status: 'failed'; readonly failure: ToolFailure };

/**
 * `started`: nobody has run this key yet, and now it is taken. `in_progress`: somebody began and has not finished, and has so many milliseconds left to; with
 * none left they are gone. `conflict`: the key belongs to another call.
 */
export type JournalClaim =
  | { readonly status: 'started' | 'conflict' }
  | { readonly status: 'in_progress'; readonly leftMs: number }
  | { readonly status: 'finished'; readonly outcome: JournalOutcome };

/** The port that performs a mutating call at most once per idempotency key: the key is taken before the effect. */
export abstract class CallJournal {
  /** Takes the key, atomically, or says what became of it. */
  abstract begin(start: JournalStart): Promise<JournalClaim>;
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
