import type { JsonValue } from './json.js';
import type { ToolFailure } from './tool-error.js';

/** Identifies a call across attempts, resumes and processes. */
export interface JournalKey {
  readonly tenant: string;
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
  | { readonly status: 'succeeded'; readonly content: string; readonly ui: JsonValue }
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
  abstract finish(key: JournalKey, outcome: JournalOutcome): Promise<void>;
}
