import type { RecordedAttachment } from './attachment.js';
import type { JsonValue } from './json.js';
import type { ToolFailure } from './tool-error.js';

/** Identifies a call across attempts, resumes and processes. */
export interface JournalKey {
  readonly tenant: string;
  /** Of the place of the call in its request, or of what the tool declares; two tools never share one. */
  readonly idempotencyKey: string;
}

/** What is written before the effect. */
export interface JournalStart extends JournalKey {
  readonly runId: string;
  readonly declaredId: string;
  readonly instanceId?: string;
  /** Canonical JSON. */
  readonly args: string;
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
 * `started`: nobody has run this key yet, and now it is taken. `in_progress`: somebody began and has not finished. `conflict`: the key belongs to
 * another call.
 */
export type JournalClaim =
  { readonly status: 'started' | 'in_progress' | 'conflict' } | { readonly status: 'finished'; readonly outcome: JournalOutcome };

/** The port that performs a mutating call at most once per idempotency key: the key is taken before the effect. */
export abstract class CallJournal {
  /** Takes the key, atomically, or says what became of it. */
  abstract begin(start: JournalStart): Promise<JournalClaim>;
  /** Keeps what became of a call; from then on the key answers with it. */
  abstract finish(key: JournalKey, outcome: JournalOutcome): Promise<void>;
  /** Gives a key back whose call was never begun, so that the same call may be made later. */
  abstract release(key: JournalKey): Promise<void>;
}
