import {
  NOT_NEGATIVE,
  WHOLE_ABOVE_ZERO,
  listOfOptions,
  needed,
  oneOf,
} from '../findings/option-rules.js';
import { defineOptions, inWords } from '../findings/options.js';

/** A limit on the use of all runs of one tenant together, in one window of time. */
export interface Quota {
  readonly quantity: QuotaQuantity;
  /** Not negative; `Infinity` for no end. */
  readonly most: number;
  /**
   * Milliseconds, whole. Windows follow one another from the Unix epoch on: with 3,600,000 one
   * begins at every full hour (UTC).
   */
  readonly windowMs: number;
}

/**
 * The quantity that a quota counts: tool calls, input and output tokens, or the cost that models
 * report.
 */
export type QuotaQuantity = 'calls' | 'tokens' | 'usd';

const QUOTA = defineOptions<Quota>(
  {
    quantity: needed({
      ...oneOf('calls', 'tokens', 'usd'),
      problem: (value) => `There is no quantity ${inWords(value)}.`,
    }),
    most: needed(NOT_NEGATIVE),
    windowMs: needed({ ...WHOLE_ABOVE_ZERO, wanted: 'whole milliseconds, more than 0' }),
  },
  { wording: { unknown: 'A quota has no "*".', option: 'Its "*"' } },
);

/**
 * The quotas of a tenant. Two that count the same in windows of one length would be one counter.
 */
export const QUOTAS = listOfOptions(
  QUOTA,
  'a list of quotas; an empty one for none',
  (quotas, at) =>
    quotas.flatMap(({ quantity, windowMs }, index) => {
      const isRepeated = quotas
        .slice(0, index)
        .some((other) => other.quantity === quantity && other.windowMs === windowMs);
      if (!isRepeated || quantity === undefined || windowMs === undefined) return [];
      const problem = `An earlier one counts ${quantity} in the same window already.`;
      return [{ at: `${at}[${index}]`, problem, remedy: 'Keep the smaller of the two.' }];
    }),
);
