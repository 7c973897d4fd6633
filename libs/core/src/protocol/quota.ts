/** What a quota counts: tool calls, input and output tokens, or the cost that models report. */
export type QuotaQuantity = 'calls' | 'tokens' | 'usd';

/** What all runs of one tenant together may use in one window of time. */
export interface Quota {
  readonly quantity: QuotaQuantity;
  /** Not negative; `Infinity` for no end. */
  readonly most: number;
  /** Milliseconds, whole. Windows follow one another from the Unix epoch on: with 3,600,000 one begins at every full hour (UTC). */
  readonly windowMs: number;
}

/** One use of a quota. Whose it is, what and which window length make the counter; they are never part of what a model says. */
export interface QuotaUse {
  readonly tenant: string;
  readonly quantity: QuotaQuantity;
  readonly windowMs: number;
  /** Not negative; 0 reads. */
  readonly amount: number;
}

/**
 * The port that counts what tenants use, across runs and, with a database behind it, across processes. It knows no maximum: who adds compares.
 *
 * The window of a use is `floor(now / windowMs)`; adding and reading are one atomic operation, so that two who add at once are told different totals.
 * In SQL that is one statement over the primary key (tenant, quantity, window_ms, window): `insert … on conflict … do update set used = quotas.used +
 * excluded.used returning used`. Counters of windows that are over may be deleted at any time.
 *
 * A store that throws keeps calls from being made and models from being asked; one that does not answer for now ends the run.
 */
export abstract class QuotaStore {
  /** The total of the present window, this use included. */
  abstract use(use: QuotaUse): Promise<number>;
}
