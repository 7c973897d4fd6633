import { Injectable } from '@nestjs/common';
import type { Money } from '../desk/money.js';

/** Money that goes back to a customer. */
export interface Payout {
  readonly tenant: string;
  readonly orderId: string;
  readonly amount: Money;
}

/** The port to a provider of payments. */
export abstract class Payments {
  /** Pays back once per key, however often it is called, and answers with the payment's id. */
  abstract payBack(payout: Payout, idempotencyKey: string): Promise<string>;
  /** Calls a payment back, once however often it is called. */
  abstract recall(paymentId: string): Promise<void>;
}

/** Keeps a list of payouts instead of paying them. */
@Injectable()
export class LedgerPayments extends Payments {
  private readonly paid = new Map<string, Payout>();
  private readonly recalled = new Set<string>();

  get payouts(): readonly Payout[] {
    return [...this.paid.values()];
  }

  /** The ids of the payments that were called back. */
  get recalls(): readonly string[] {
    return [...this.recalled];
  }

  override payBack(payout: Payout, idempotencyKey: string): Promise<string> {
    if (!this.paid.has(idempotencyKey)) this.paid.set(idempotencyKey, payout);
    return Promise.resolve(`pay-${[...this.paid.keys()].indexOf(idempotencyKey) + 1}`);
  }

  override recall(paymentId: string): Promise<void> {
    this.recalled.add(paymentId);
    return Promise.resolve();
  }
}
