import { Injectable } from '@nestjs/common';
import type { Quota } from '../../contracts/quota.js';
import type { ListingReason } from '../injection/starting-toolset.js';
import { detailOf, QuotaGuard } from './quota-guard.js';
import type { MeteredRun } from './run-meter.js';
import { UsageLedger } from './usage-ledger.js';

/** Tells what is left of the quotas of a tenant. */
@Injectable()
export class QuotaStanding {
  constructor(private readonly ledger: UsageLedger) {}

  /**
   * Returns a reason by each quota. Calls are refused while quotas cannot be counted, so that is a
   * reason as well.
   */
  async reasons(run: MeteredRun, quotas: readonly Quota[]): Promise<readonly ListingReason[]> {
    if (quotas.length === 0) return [];
    try {
      const guard = new QuotaGuard(this.ledger, run, quotas);
      const standing = await guard.standing(new AbortController().signal);
      return standing.map(({ quota, isLeft }) => ({
        by: 'quota',
        holds: isLeft,
        reason: detailOf(quota, isLeft ? 'has some left' : undefined),
      }));
    } catch {
      return [UNCOUNTED];
    }
  }
}

const UNCOUNTED: ListingReason = {
  by: 'quota',
  holds: false,
  reason: "The tenant's quotas cannot be counted for now, so calls are refused.",
};
