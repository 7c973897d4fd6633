import { Injectable } from '@nestjs/common';
import { Payments, type Payout } from './payments.js';

/** Keeps what was paid back instead of paying it. */
@Injectable()
export class LedgerPayments extends Payments {
  private readonly paid = new Map<string, Payout>();

  get payouts(): readonly Payout[] {
    return [...this.paid.values()];
  }

  override payBack(payout: Payout, idempotencyKey: string): Promise<string> {
    if (!this.paid.has(idempotencyKey)) this.paid.set(idempotencyKey, payout);
    return Promise.resolve(`pay-${[...this.paid.keys()].indexOf(idempotencyKey) + 1}`);
  }
}
