import type { QuotaQuantity } from './quota.js';

/**
 * The port that counts what tenants use, across runs and, with a database behind it, across
 * processes. Quotas and reports read the same counts: an increment counts in its day and in the
 * windows of its batch, or in none of them. It knows no maximum: who adds compares.
 *
 * Adding is atomic, so that two who add at once are told different totals. Ids of batches and
 * increments are remembered for two days at least; days are kept for 400. Counters of windows that
 * are over may be deleted at any time.
 *
 * A store that fails keeps calls from being made where the tenant has quotas. Other runs are not
 * harmed: what they use is added later, in batches.
 *
 * @example
 * // `usageStoreContract` of `@toolloop/testing` checks it
 * { provide: UsageStore, useClass: RedisUsageStore },
 */
export abstract class UsageStore {
  /**
   * Adds a batch. Resolves to the total of each of its windows at present, in their order, these
   * increments included.
   */
  abstract add(batch: UsageBatch): Promise<readonly number[]>;
  /** Resolves to the totals of a tenant in the present windows, in their order. */
  abstract totals(tenant: string, windows: readonly UsageWindow[]): Promise<readonly number[]>;
  /**
   * Rows in the order of their dimensions, by {@link usageSortKey}, the first of `groupBy` first.
   */
  abstract report(query: UsageQuery): Promise<readonly UsageRow[]>;
}

/** The amounts that are counted. Each may be negative in an increment that takes something back. */
export interface UsageAmounts {
  /** Tool calls that were let through to their tools. */
  readonly calls: number;
  /** Answers of models. */
  readonly answers: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Cost of the answers in USD, as far as it is known. */
  readonly usd: number;
  /** Answers whose cost is not known, so that `usd` lacks it. */
  readonly unpricedAnswers: number;
}

/** The place of an amount in the ledger, beside its tenant. */
export interface UsageKey {
  /** The day in UTC: `2026-11-23`. */
  readonly day: string;
  /** The id of the actor. Absent for an actor without an id. */
  readonly actor?: string;
  /**
   * The declared id of the tool that was called; for answers, of the tool whose call was a run.
   * Absent for the answers of other runs.
   */
  readonly tool?: string;
  /**
   * The model as `provider/modelId`: the one that answered, or for calls the one of the run. Absent
   * for calls without a model.
   */
  readonly model?: string;
}

/** One use: the answer of a model, or calls. */
export interface UsageIncrement extends UsageKey, UsageAmounts {
  /**
   * An increment with the same id was added before, or is this one: it counts once. Absent where no
   * other process adds it.
   */
  readonly id?: string;
}

/** A window of time in which a quantity of a tenant is counted: `floor(now / windowMs)`. */
export interface UsageWindow {
  readonly quantity: QuotaQuantity;
  /** Milliseconds, whole. */
  readonly windowMs: number;
}

/** Increments of one tenant that are added as one unit. */
export interface UsageBatch {
  /**
   * A batch with the same id was added before, or is this one: it counts once, so that a lost
   * answer may be asked for again.
   */
  readonly batchId: string;
  readonly tenant: string;
  readonly increments: readonly UsageIncrement[];
  /** The windows in which they count as well, for quotas. @default none */
  readonly windows?: readonly UsageWindow[];
}

/** The dimensions by which a report can be grouped. */
export const USAGE_DIMENSIONS = ['tenant', 'day', 'actor', 'tool', 'model'] as const;

export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** A selection of the ledger. */
export interface UsageQuery {
  /** @default all tenants */
  readonly tenant?: string;
  /** First and last day, both included. */
  readonly from: string;
  readonly to: string;
  readonly actor?: string;
  readonly tool?: string;
  readonly model?: string;
  /** Without a dimension there is one row, the sum of all. */
  readonly groupBy: readonly UsageDimension[];
  readonly limit: number;
  /**
   * The last row of the page before, by {@link usageSortKey} of its dimensions, in the order of
   * `groupBy`.
   */
  readonly after?: readonly string[];
}

/**
 * A row of a report: the dimensions that it is grouped by, those without a value left out, and the
 * sums.
 */
export interface UsageRow extends Partial<UsageKey>, UsageAmounts {
  readonly tenant?: string;
}

/**
 * The text by whose bytes rows are ordered: JSON, in which every text can be stored; what is absent
 * comes behind every text.
 */
export function usageSortKey(value: string | undefined): string {
  return value === undefined ? 'null' : JSON.stringify(value);
}

/** The part of an increment that counts for a quantity. */
export function amountOf(
  { calls, inputTokens, outputTokens, usd }: UsageAmounts,
  quantity: QuotaQuantity,
): number {
  if (quantity === 'calls') return calls;
  return quantity === 'tokens' ? inputTokens + outputTokens : usd;
}
